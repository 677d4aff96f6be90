"""examples.tsv: the example that an operator has of one of its differences, by its own name.

The catalogue shows each difference once, mostly on one operator. For another operator that declares it, the same
expressions are written with that operator's names and, where it takes other arguments, with more or fewer of them. What
torch, NumPy and the kernel then give is kept where they part in the same manner: both raise or not as in the catalogue,
the dtypes agree or not, the shapes agree or not, and the kernel is with torch.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import torchnp
from torchnp.catalogue import CATALOGUE
from torchnp.differences import Difference, run
from torchnp.lookup.naming import public_name
from torchnp.registry import REGISTERED

HEAD = "# by scripts/make_lookup.py: operator, difference, torch, its value, NumPy, its value, kernel"
PATH = Path(torchnp.__file__).parent / "data" / "examples.tsv"
OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floor_divide", ast.Mod: "remainder",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.Eq: "eq", ast.Lt: "lt",
}  # fmt: skip
NOT_THE_POINT = re.compile(
    r"missing|positional|unexpected keyword|Expected a value of type|invalid combination|must be Tensor|at most|takes"
    r"|multiple values|unsupported operand|has no attribute|not defined|is not callable|must be tuple|required argument"
)


def pairs() -> dict[tuple[str, str], tuple[str, ...]]:
    """Operators and the differences that they declare, each with the NumPy counterparts of the operator."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, row in REGISTERED.items():
        for i in row.differs:
            found.setdefault((name.partition(".")[0], i), []).append(public_name(row.like))
    return {pair: tuple(dict.fromkeys(filter(None, likes))) for pair, likes in found.items()}


def lines(afresh: bool) -> list[str]:
    """The file's lines, in order; what was found before is asked again only ``afresh``."""
    known = {}
    if PATH.exists() and not afresh:
        for line in PATH.read_text(encoding="utf-8").splitlines()[1:]:
            op, i, *_ = line.split("\t")
            known[op, i] = line
    declared = pairs()
    asked = {tuple(line.split("\t")[:2]): line for line in known.values()}
    fresh = [pair for pair in declared if pair not in asked]
    found = {pair: line for pair, line in asked.items() if pair in declared}
    for pair in fresh:
        example = next(of_pair(*pair, declared), None)
        if example is not None:
            values = run(example)
            cells = (*pair, example.torch, values["torch"], example.numpy, values["numpy"], example.kernel)
            if not any("\t" in c or "\n" in c for c in cells):
                found[pair] = "\t".join(cells)
    return [HEAD, *(found[pair] for pair in sorted(found))]


def of_pair(op: str, i: str, declared: dict) -> Iterator[Difference]:
    """The difference shown on this operator, where that can be."""
    shown = CATALOGUE[i]
    mine = torch_names(op)
    called = [f"aten::{b}" for b in re.findall(r"aten\.(\w+)\(", shown.kernel)]
    if op in called or op.startswith("prims::"):
        if op in called:
            yield shown
        return
    subjects = [c for c in called if (c, i) in declared] or called[:1]
    for subject, spelled in itertools.product(dict.fromkeys(subjects), mine):
        for n_from, n_to in itertools.product(declared.get((subject, i), ()) or ("",), declared[op, i]):
            for change in CHANGES:
                try:
                    made = Difference(
                        shown.id, shown.title, numpy_value="", torch_value="", where=shown.where,
                        torch=rewritten(shown.torch, subject, spelled, change),
                        numpy=rewritten(shown.numpy, n_from, n_to, change),
                        kernel=rewritten(shown.kernel, subject, f"aten.{op.partition('::')[2]}", change),
                    )  # fmt: skip
                except LookupError:
                    continue
                try:
                    values = run(made)
                except AssertionError:  # torch's Python code refuses so; the catalogue shows refusals of operators
                    continue
                if same_manner(shown, values):
                    yield made


def torch_names(op: str) -> list[str]:
    """How Python code calls an op."""
    import torch

    base = op.partition("::")[2]
    spellings = [f"torch.{base}", f"torch.nn.functional.{base}"]
    for sub in ("linalg", "special", "fft"):
        if base.startswith(f"{sub}_"):
            spellings.insert(0, f"torch.{sub}.{base.removeprefix(sub + '_')}")
    spellings.append(f"torch.Tensor.{base}")
    found = []
    for s in spellings:
        try:
            eval(s, {"torch": torch})
            found.append(s)
        except AttributeError:
            continue
    return found[:1] + [f"torch.ops.aten.{base}"]


def _kept(call: ast.Call) -> ast.Call:
    return call


def _doubled(call: ast.Call) -> ast.Call:
    return ast.Call(call.func, [call.args[0], call.args[0]], call.keywords)


def _alone(call: ast.Call) -> ast.Call:
    return ast.Call(call.func, call.args[:1], [])


def _tripled(call: ast.Call) -> ast.Call:
    return ast.Call(call.func, [call.args[0]] * 3, [])


def _along(call: ast.Call) -> ast.Call:
    return ast.Call(call.func, [call.args[0], ast.Constant(0)], [])


CHANGES = (_kept, _doubled, _alone, _along, _tripled)


class _Calls(ast.NodeTransformer):
    def __init__(self, is_subject, new: str, change) -> None:
        self.is_subject, self.new, self.change, self.count = is_subject, new, change, 0

    def _made(self, args, keywords) -> ast.AST:
        if not args:
            raise LookupError("no arguments")
        self.count += 1
        return self.change(ast.Call(ast.parse(self.new, mode="eval").body, args, keywords))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if self.is_subject(ast.unparse(node.func)):
            return self._made(node.args, node.keywords)
        if isinstance(node.func, ast.Attribute) and self.is_subject("torch." + node.func.attr):
            owner = ast.unparse(node.func.value)
            if not re.fullmatch(r"torch|np|aten|scipy|torch\.(nn\.functional|linalg|special|fft|ops\.aten)", owner):
                return self._made([node.func.value, *node.args], node.keywords)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        base = OPERATORS.get(type(node.op))
        if base and (self.is_subject(f"torch.{base}") or self.is_subject(f"op.{base}")):
            return self._made([node.left, node.right], [])
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        base = OPERATORS.get(type(node.ops[0]))
        if base and (self.is_subject(f"torch.{base}") or self.is_subject(f"op.{base}")):
            return self._made([node.left, node.comparators[0]], [])
        return node


OF_NUMPY = {"numpy.add": "add", "numpy.subtract": "sub", "numpy.multiply": "mul", "numpy.divide": "div", "numpy.power": "pow",
            "numpy.floor_divide": "floor_divide", "numpy.remainder": "remainder", "numpy.equal": "eq", "numpy.less": "lt"}  # fmt: skip


def rewritten(text: str, subject: str, new: str, change) -> str:
    """An expression with another function in the subject's place; LookupError where the subject does not occur."""
    if subject.startswith("aten::"):
        base = subject.partition("::")[2]
        short = re.sub("^(linalg|special|fft)_", "", base)
        spelled = {f"aten.{base}", f"torch.{base}", f"torch.ops.aten.{base}", f"torch.nn.functional.{base}"}
        spelled |= {f"torch.{sub}.{short}" for sub in ("linalg", "special", "fft") if base == f"{sub}_{short}"}
    else:
        if not subject or not new:
            raise LookupError("no counterpart")
        if not new.startswith(("numpy.", "scipy.special")):
            raise LookupError(new)
        spelled, new = {subject.replace("numpy.", "np."), f"op.{OF_NUMPY.get(subject)}"}, new.replace("numpy.", "np.")
        if new.startswith("np.ndarray.__"):
            raise LookupError(new)
    calls = _Calls(spelled.__contains__, new, change)
    tree = calls.visit(ast.parse(text, mode="eval"))
    if not calls.count:
        raise LookupError(subject)
    return ast.unparse(ast.fix_missing_locations(tree))


def same_manner(shown: Difference, values: dict[str, str]) -> bool:
    """Whether torch and NumPy part as they do in the catalogue, with the kernel on torch's side."""
    torch, numpy, kernel = values["torch"], values["numpy"], values["kernel"]
    raised = "Error:" in torch
    agree = torch.split()[:6] == kernel.split()[:6] if raised else torch == kernel
    if not agree or any("Error:" in v and NOT_THE_POINT.search(v) for v in (torch, numpy)):
        return False
    return relation(torch, numpy) == relation(shown.torch_value, shown.numpy_value)


def relation(torch: str, numpy: str) -> tuple[bool, ...]:
    parts = [re.match(r"(\w+)\[([\d, ]*)\] (.*)", v) for v in (torch, numpy)]
    a, b = parts
    known = a is not None and b is not None
    return (
        "Error:" in torch, "Error:" in numpy, torch == numpy, known,
        bool(known and a[1] == b[1]), bool(known and a[2] == b[2]),
    )  # fmt: skip
