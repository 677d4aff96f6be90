"""Makes examples.tsv: for an operator and one of its differences, an example with the operator's own name.

The catalogue shows each difference once, usually for one operator. For another operator that has the difference, its
expressions are rewritten with that operator's names and, if it takes other arguments, with more or fewer of them. The
results of torch, NumPy and the kernel are kept if they differ in the same way: the same sides raise errors as in the
catalogue, dtypes and shapes agree or differ as there, and the kernel agrees with torch.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

import torchnp
from torchnp.core.registry import REGISTERED
from torchnp.difference_catalogue import CATALOGUE
from torchnp.differences import Difference, run, shows
from torchnp.lookup import resolve
from torchnp.lookup.public_name import public_name

HEAD = "# by scripts/make_lookup.py: operator, difference, torch, value, NumPy, value, kernel, torch's in NumPy, NumPy's in torch"
PATH = Path(torchnp.__file__).parent / "data" / "examples.tsv"
OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floor_divide", ast.Mod: "remainder",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.Eq: "eq", ast.Lt: "lt",
}  # fmt: skip
FIELDS = ("torch", "numpy", "kernel", "in_numpy", "in_torch")
# Arguments for operators that do not accept those of the catalogue's example: for torch, NumPy and the kernel.
BIG = "[6e4, 6e4, -6e4]"
MORE = {
    "zero-dim-axis": [
        (f"torch.tensor(2.0){a}", f"np.array(2.0, np.float32){b}", f"np.array(2.0, np.float32){c}")
        for a, b, c in (
            (", 0", ", 0", ", 0"), (", 0", ", 0", ", [0]"), (", [0]", ", 0", ", [0]"), (", 0, 0", ", 0, 0", ", 0, 0"),
            (", 0.5, 0", ", 0.5, 0", ", 0.5, 0"), (", 1, 0", ", 0, 0", ", 1, 0"), (", 0, 0", ", 0, 0", ", [0], [0]"),
        )
    ],
    "fill-0d": [
        ("torch.zeros(2), torch.ones(1)", "np.zeros(2, np.float32), np.ones(1, np.float32)",
          "np.zeros(2, np.float32), np.ones(1, np.float32)"),
        ("torch.zeros(2), 0, torch.tensor([0]), torch.ones(1)",
          "(x := np.zeros(2, np.float32), {f}(x, np.array([0]), np.ones(1, np.float32), 0))[0]",
          "np.zeros(2, np.float32), 0, np.array([0]), np.ones(1, np.float32)"),
    ],
    "no-mixed-writes": [
        ("torch.zeros(2), 0, torch.tensor([0]), torch.ones(1, dtype=torch.float64)",
          "(x := np.zeros(2, np.float32), {f}(x, np.array([0]), np.ones(1), 0))[0]",
          "np.zeros(2, np.float32), 0, np.array([0]), np.ones(1)"),
        ("torch.zeros(2), torch.tensor([0]), torch.ones(1, dtype=torch.float64)",
          "(x := np.zeros(2, np.float32), {f}(x, np.array([0]), np.ones(1)))[0]",
          "np.zeros(2, np.float32), np.array([0]), np.ones(1)"),
        ("torch.zeros(1, dtype=torch.float64), torch.tensor([True]), torch.ones(1)",
          "(x := np.zeros(1), {f}(x, np.array([True]), np.ones(1, np.float32)))[0]",
          "np.zeros(1), np.array([True]), np.ones(1, np.float32)"),
    ],
    "max-with-indices": [
        (f"torch.tensor([1.0, 3.0, 2.0]){a}", f"np.array([1.0, 3.0, 2.0], np.float32){b}", f"np.array([1.0, 3.0, 2.0], np.float32){a}")
        for a, b in ((", 0", ", 0"), (", 2, 0", ", 1, 0"))
    ],
    "three-tier-promotion": [
        ("torch.tensor([0.7]), torch.tensor(0.7, dtype=torch.float64)", "np.array([0.7], np.float32), np.array(0.7)",
          "np.array([0.7], np.float32), np.array(0.7)"),
        ("torch.tensor([0.0]), torch.tensor(1.0, dtype=torch.float64)", "np.array([0.0], np.float32), np.array(1.0)",
          "np.array([0.0], np.float32), np.array(1.0)"),
        ("torch.tensor([0.1]), torch.tensor(0.1, dtype=torch.float64)", "np.array([0.1], np.float32), np.array(0.1)",
          "np.array([0.1], np.float32), np.array(0.1)"),
        ("torch.tensor([True]), torch.ones(1), torch.tensor(1.0, dtype=torch.float64)",
          "np.array([True]), np.ones(1, np.float32), np.array(1.0)",
          "np.array([True]), np.ones(1, np.float32), np.array(1.0)"),
        ("torch.ones(1), torch.tensor(0.0, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)",
          "np.ones(1, np.float32), np.array(0.0), np.array(1.0)",
          "np.ones(1, np.float32), np.array(0.0), np.array(1.0)"),
        ("torch.ones(1, dtype=torch.int32), torch.tensor(1)", "np.ones(1, np.int32), np.array(1)", "np.ones(1, np.int32), np.array(1)"),
    ],
    "random-stream": [
        (f"(torch.manual_seed(0), {{f}}({a}))[1]", f"np.random.RandomState(0).{{last}}({b}).astype(np.float32)",
          f"(torchnp.manual_seed(0), {{f}}({c}))[1]")
        for a, b, c in (
            ("2", "2", "[2]"), ("0.0, 1.0, (2,)", "0, 1, 2", "0.0, 1.0, [2]"), ("10, (4,)", "10, size=4", "10, [4]"), ("4", "4", "4"),
            ("torch.full((4,), 0.5)", "1, 0.5, 4", "np.full(4, 0.5, np.float32)"),
              ("torch.full((4,), 3.0)", "3.0, 4", "np.full(4, 3, np.float32)"),
            ("torch.full((4,), 9.0), torch.full((4,), 0.5)", "9, 0.5, 4", "np.full(4, 9, np.float32), np.full(4, 0.5, np.float32)"),
        )
    ],
    "number-wraps": [(f"torch.ones(1, dtype=torch.uint8), {n}", f"np.ones(1, np.uint8), {n}",
          f"np.ones(1, np.uint8), {n}")
      for n in ("300",)],
    "no-bool-subtraction": [("torch.tensor([True]), 1", "np.array([True]), 1", "np.array([True]), 1")],
    "integer-division-by-zero": [
        ("{f}(torch.tensor([1]), torch.tensor([0]), rounding_mode='floor')",
          "np.floor_divide(np.array([1]), np.array([0]))", "{f}(np.array([1]), np.array([0]), rounding_mode='floor')"),
    ],
    "expand-minus-1": [("torch.ones(2, 1), (-1, 3)", "np.ones((2, 1), np.float32), (-1, 3)", "np.ones((2, 1), np.float32), [-1, 3]")],
    "histc-dtype": [("{f}(torch.tensor([0.0, 1.0, 1.0]), 2)[0]", "{f}(np.array([0.0, 1.0, 1.0], np.float32), 2)[0]",
      "{f}(np.array([0.0, 1.0, 1.0], np.float32), 2)[0]")],
    "cumsum-needs-dim": [("torch.ops.aten.{last}.default(torch.ones(2, 2))", "{f}(np.ones((2, 2), np.float32))",
      "{f}.default(np.ones((2, 2), np.float32))")],
    "promotion-category": [("torch.int64, torch.float16", "np.int64, np.float16", "'int64', 'float16'")],
    "empty-dim": [("torch.ones(2, 3), dim=()", "np.ones((2, 3), np.float32), axis=()", "np.ones((2, 3), np.float32), dim=()")],
    "stable-descending": [
        ("{f}(torch.tensor([1, 2, 2]), descending=True, stable=True)[1]",
          "np.argsort(np.array([1, 2, 2]), stable=True)[::-1]",
          "{f}(np.array([1, 2, 2]), stable=True, dim=-1, descending=True)[1]"),
    ],
    "comparison-in-promoted-dtype": [
        ("torch.tensor([0.7]), torch.tensor(0.7, dtype=torch.float64)", "np.array([0.7], np.float32), np.array(0.7)",
          "np.array([0.7], np.float32), np.array(0.7)"),
        ("torch.tensor([16777217], dtype=torch.int32), torch.tensor(16777216.0)",
          "np.array([16777217], np.int32), np.array(16777216.0)",
          "np.array([16777217], np.int32), np.array(16777216.0, np.float32)"),
        ("torch.tensor([16777216], dtype=torch.int32), torch.tensor(16777217, dtype=torch.int32) * 1.0",
          "np.array([16777216], np.int32), np.array(16777217.0)",
          "np.array([16777216], np.int32), np.array(16777217.0, np.float32)"),
    ],
    "comparison-wraps-number": [
        (f"torch.tensor([{k}], dtype=torch.uint8), {n}", f"np.array([{k}], np.uint8), {n}", f"np.array([{k}], np.uint8), {n}")
        for k, n in ((255, -1), (0, -1), (3, 258))
    ],
    "half-opmath": [
        ("torch.ones(5000, 2, dtype=torch.float16), 0", "np.ones((5000, 2), np.float16), 0", "np.ones((5000, 2), np.float16), [0]"),
        (
            "'ij,jk->ik', torch.ones(2, 5000, dtype=torch.float16), torch.ones(5000, 2, dtype=torch.float16)",
            "'ij,jk->ik', np.ones((2, 5000), np.float16), np.ones((5000, 2), np.float16)",
            "'ij,jk->ik', [np.ones((2, 5000), np.float16), np.ones((5000, 2), np.float16)]",
        ),
        (
            "torch.ones(2, 5000, dtype=torch.float16), torch.ones(2, 5000, dtype=torch.float16)",
            "np.ones((2, 5000), np.float16), np.ones((2, 5000), np.float16)",
            "np.ones((2, 5000), np.float16), np.ones((2, 5000), np.float16)",
        ),
        (
            "torch.tensor([[0.1, 0.7, 3.3]], dtype=torch.float16), torch.tensor([[9.1, 0.3, 1.7]], dtype=torch.float16)",
            "np.array([[0.1, 0.7, 3.3]], np.float16), np.array([[9.1, 0.3, 1.7]], np.float16)",
            "np.array([[0.1, 0.7, 3.3]], np.float16), np.array([[9.1, 0.3, 1.7]], np.float16)",
        ),
        (f"torch.tensor([{BIG}], dtype=torch.float16), torch.ones(3, 1, dtype=torch.float16)",
          f"np.array([{BIG}], np.float16), np.ones((3, 1), np.float16)",
          f"np.array([{BIG}], np.float16), np.ones((3, 1), np.float16)"),
        (f"torch.tensor({BIG}, dtype=torch.float16), torch.ones(3, dtype=torch.float16)",
          f"np.array({BIG}, np.float16), np.ones(3, np.float16)",
          f"np.array({BIG}, np.float16), np.ones(3, np.float16)"),
        (f"torch.tensor([{BIG}], dtype=torch.float16), torch.ones(3, dtype=torch.float16)",
          f"np.array([{BIG}], np.float16), np.ones(3, np.float16)",
          f"np.array([{BIG}], np.float16), np.ones(3, np.float16)"),
        (f"torch.tensor([[{BIG}]], dtype=torch.float16), torch.ones(1, 3, 1, dtype=torch.float16)",
          f"np.array([[{BIG}]], np.float16), np.ones((1, 3, 1), np.float16)",
          f"np.array([[{BIG}]], np.float16), np.ones((1, 3, 1), np.float16)"),
        (f"torch.tensor({BIG}, dtype=torch.float16)", f"np.array({BIG}, np.float16)", f"np.array({BIG}, np.float16)"),
        ("torch.full((5000,), 1.0, dtype=torch.float16)", "np.full(5000, 1.0, np.float16)", "np.full(5000, 1.0, np.float16)"),
        ("torch.tensor([0.1, 0.7, 3.3, 9.1], dtype=torch.float16)", "np.array([0.1, 0.7, 3.3, 9.1], np.float16)",
          "np.array([0.1, 0.7, 3.3, 9.1], np.float16)"),
    ],
    "default-dtype": [
        ("(1,), 1.0", "(1,), 1.0", "[1], 1.0"), ("2, periodic=False", "2", "2, False"), ("2", "2", "2"),
          ("0.0, 1.0, 2", "0.0, 1.0, 2", "0.0, 1.0, 2"),
        ("1.0", "1.0", "1.0"), ("2, periodic=False, beta=1.0", "2, 1.0", "2, False, 1.0"),
    ],
    "int-to-default-float": [
        ("torch.tensor([1]), torch.tensor([2])", "np.array([1]), np.array([2])", "np.array([1]), np.array([2])"),
    ],
    "int-float-promotion": [
        ("[torch.ones(1, dtype=torch.int64), torch.ones(1, dtype=torch.float16)]",
          "[np.ones(1, np.int64), np.ones(1, np.float16)]", "[np.ones(1, np.int64), np.ones(1, np.float16)]"),
    ],
    "no-mixed-products": [
        ("[torch.ones(1, 1), torch.ones(1, 1, dtype=torch.float64)]", "[np.ones((1, 1), np.float32), np.ones((1, 1))]",
          "[np.ones((1, 1), np.float32), np.ones((1, 1))]"),
    ],
    "no-half-fft": [("torch.ones(2, 2, dtype=torch.float16)", "np.ones((2, 2), np.float16)", "np.ones((2, 2), np.float16)")],
    "fft-of-integers": [("torch.ones(2, 2, dtype=torch.int64)", "np.ones((2, 2), np.int64)", "np.ones((2, 2), np.int64)")],
    "memory-format": [("torch.zeros(2, 3).t()", "np.zeros((2, 3), np.float32).T", "np.zeros((2, 3), np.float32).T")],
    "gather-negative": [],
    "pad-crops": [
        ("torch.arange(4.0)[None], (-1, -1)", "np.arange(4, dtype=np.float32)[None], ((0, 0), (-1, -1))",
          "np.arange(4, dtype=np.float32)[None], [-1, -1]"),
        ("torch.ones(1, 4, 4), (-1, -1, 0, 0)", "np.ones((1, 4, 4), np.float32), ((0, 0), (0, 0), (-1, -1))",
          "np.ones((1, 4, 4), np.float32), [-1, -1, 0, 0]"),
    ],
}  # fmt: skip
# Arguments for single operators, for which torch rejects those of the catalogue and of `MORE` for another reason.
_VECTORS = (
    "torch.ones(1), torch.ones(1, dtype=torch.float64)",
    "np.ones(1, np.float32), np.ones(1)",
    "np.ones(1, np.float32), np.ones(1)",
)
_BOOLS = (
    "torch.tensor([True]), torch.tensor([True])",
    "np.array([True]), np.array([True])",
    "np.array([True]), np.array([True])",
)
_UINTS = (
    "{f}(x := torch.ones(1, dtype=torch.uint32), x)",
    "{f}(x := np.ones(1, np.uint32), x)",
    "{f}(x := np.ones(1, np.uint32), x)",
)
OWN = {(f"aten::{op}", "no-mixed-products"): _VECTORS for op in ("dot", "vdot")}
OWN |= {(f"aten::{op}", "no-bool-product"): _BOOLS for op in ("dot", "vdot")}
OWN |= {(f"aten::{op}", "missing-kernel"): _UINTS for op in ("sub", "subtract", "rsub", "max", "min")}
OWN |= {
    ("aten::mv", "no-mixed-products"): (
        "torch.ones(1, 1), torch.ones(1, dtype=torch.float64)", "np.ones((1, 1), np.float32), np.ones(1)",
          "np.ones((1, 1), np.float32), np.ones(1)",
    ),
    ("aten::mv", "no-bool-product"): (
        "torch.tensor([[True]]), torch.tensor([True])", "np.array([[True]]), np.array([True])", "np.array([[True]]), np.array([True])",
    ),
    ("aten::bmm", "no-mixed-products"): (
        "torch.ones(1, 1, 1), torch.ones(1, 1, 1, dtype=torch.float64)", "np.ones((1, 1, 1), np.float32), np.ones((1, 1, 1))",
        "np.ones((1, 1, 1), np.float32), np.ones((1, 1, 1))",
    ),
    ("aten::bmm", "no-bool-product"): (
        "torch.tensor([[[True]]]), torch.tensor([[[True]]])", "np.array([[[True]]]), np.array([[[True]]])",
          "np.array([[[True]]]), np.array([[[True]]])",
    ),
    ("aten::kthvalue", "missing-kernel"): ("torch.tensor([True]), 1", "np.array([True]), 0", "np.array([True]), 1"),
    ("aten::einsum", "sum-dtype"): (
        "'i->', torch.tensor([1, 2], dtype=torch.uint8)", "'i->', np.array([1, 2], np.uint8)", "'i->', [np.array([1, 2], np.uint8)]",
    ),
    ("aten::norm", "zero-dim-axis"): (
        "torch.tensor(2.0), 2, 0", "np.array(2.0, np.float32), 2, 0", "np.array(2.0, np.float32), 2, [0]",
    ),
    ("aten::frobenius_norm", "zero-dim-axis"): (
        "torch.tensor(2.0), 0", "np.array(2.0, np.float32), axis=0", "np.array(2.0, np.float32), [0]",
    ),
    ("aten::frobenius_norm", "no-integers-norm"): ("torch.tensor([3, 4]), 0", "np.array([3, 4]), axis=0", "np.array([3, 4]), [0]"),
    ("aten::cummin", "cummax-indices"): ("torch.tensor([3, 1, 1]), 0", "np.array([3, 1, 1])", "np.array([3, 1, 1]), 0"),
    ("aten::kaiser_window", "periodic-windows"): ("4", "{f}(4, 12.0).astype(np.float32)", "4"),
    ("aten::kaiser_window", "float-dtypes-alone"): ("4, dtype=torch.int64", "{f}(4, 12.0).astype(np.int64)", "4, dtype='int64'"),
    ("aten::scatter", "gather-crops"): (
        "torch.zeros(2, 2), 1, torch.tensor([[0]]), torch.ones(1, 1)",
        "(x := np.zeros((3, 2), np.float32), {f}(x, np.array([[0], [1]]), np.ones((2, 1), np.float32), 1))[0]",
        "np.zeros((2, 2), np.float32), 1, np.array([[0]]), np.ones((1, 1), np.float32)",
    ),
    ("aten::gradient", "int-to-default-float"): (
        "{f}(torch.tensor([1, 3], dtype=torch.int8))[0]", "{f}(np.array([1, 3], np.int8))", "{f}(np.array([1, 3], np.int8))[0]",
    ),
}  # fmt: skip
for _n, (_pad, _mode) in itertools.product((1, 2, 3), (("reflection", "reflect"), ("replication", "edge"))):
    _shape, _pads = (2,) * (_n + 1), "((1, 0)" + ", (0, 0)" * _n + ")"
    OWN[f"aten::{_pad}_pad{_n}d", "pad-order"] = (
        f"{{f}}(torch.ones{_shape}, {(1, 0, *[0] * (2 * _n - 2))}).shape",
        f"{{f}}(np.ones({_shape}, np.float32), {_pads}, mode={_mode!r}).shape",
        f"{{f}}(np.ones({_shape}, np.float32), {[1, 0, *[0] * (2 * _n - 2)]}).shape",
    )
# Examples for which NumPy's result changed in version 2.5: eigenvalues are complex.
CHANGED = {(f"aten::{op}", "no-integers-linalg") for op in ("linalg_eig", "linalg_eigvals", "_linalg_eigvals")}
CHANGED |= {("aten::histogramdd", "missing-kernel")}
NOT_THE_POINT = re.compile(
    r"missing|positional|unexpected keyword|Expected a value of type|invalid combination|must be Tensor|at most|takes"
    r"|multiple values|failed to match any schema|unsupported operand|has no attribute|not defined|is not "
    r"callable|must be tuple|required argument"
)


def pairs() -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the pairs of operators and the differences that they declare, each with the NumPy counterparts."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, row in REGISTERED.items():
        for i in row.differs:
            found.setdefault((name.partition(".")[0], i), []).append(public_name(row.like))
    return {pair: tuple(dict.fromkeys(filter(None, likes))) for pair, likes in found.items()}


def of_scipys_halves(i: str, likes: Iterable[str]) -> bool:
    """Return whether an example would use SciPy in half precision, where its result depends on its version."""
    return i == "half-opmath" and any(like.startswith("scipy.special.") for like in likes)


def lines(afresh: bool) -> list[str]:
    """Return the file's lines in order; with ``afresh``, all examples are made again, not only missing ones."""
    known = {}
    if PATH.exists() and not afresh:
        for line in PATH.read_text(encoding="utf-8").splitlines()[1:]:
            op, i, *_ = line.split("\t")
            known[op, i] = line
    declared = pairs()
    asked = {tuple(line.split("\t")[:2]): line for line in known.values()}
    mistaken = {pair for pair, line in asked.items() if of_another(*pair, line.split("\t")[3], declared)}
    mistaken |= {pair for pair, line in asked.items() if better(*pair, line.split("\t"))}
    asked = {pair: line for pair, line in asked.items() if pair not in mistaken}
    steady = {pair for pair, likes in declared.items() if pair not in CHANGED and not of_scipys_halves(pair[1], likes)}
    fresh = [pair for pair in declared if pair not in asked and pair in steady]
    found = {pair: line for pair, line in asked.items() if pair in steady}
    for pair in fresh:
        fit = (d for d in of_pair(*pair, declared) if not of_another(*pair, asked_of(d)["torch"], declared))
        example = next(filter(lasting, fit), None)
        if example is not None:
            found |= line_of(pair, example)
    if afresh:
        for pair, example in of_proof(frozenset(steady - found.keys())):
            values = asked_of(example)
            others = of_another(*pair, values["torch"], declared)
            fits = shows(CATALOGUE[pair[1]], values["torch"], values["numpy"])
            if values["torch"] == values["kernel"] != values["numpy"] and fits and not others:
                found |= line_of(pair, example)
    return [HEAD, *(found[pair] for pair in sorted(found))]


def of_another(op: str, i: str, said: str, declared: Iterable[tuple[str, str]]) -> bool:
    """Return whether torch's error (apart from numbers) is that of another difference which the operator declares."""
    plain = lambda text: re.sub(r"\d+", "", text)
    others = [plain(CATALOGUE[j].torch_value) for o, j in declared if o == op and j != i]
    return "Error:" in said and plain(said) != plain(CATALOGUE[i].torch_value) and plain(said) in others


def better(op: str, i: str, cells: list[str]) -> bool:
    """Return whether an example is outdated: it shows another difference, or there is a better one."""
    shown = CATALOGUE[i]
    mine = {op, f"{op}_"} & called_by(shown)
    return not shows(shown, cells[3], cells[5]) or bool(mine and cells[2] != shown.torch) or (op, i) in OWN


def called_by(shown: Difference) -> set[str]:
    """Return the operators that the kernel's expression of a difference calls, without overload names."""
    return {f"aten::{base}" for base in re.findall(r"aten\.(\w+)(?:\.\w+)?\(", shown.kernel)}


def line_of(pair: tuple[str, str], example: Difference) -> dict[tuple[str, str], str]:
    """Return the line of an example with its operator and difference; empty if the example does not fit in a line."""
    values = {"in_numpy": "", "in_torch": ""} | asked_of(example)
    advice = [
        getattr(example, field) if values[field] == values[other] else ""
        for field, other in (("in_numpy", "torch"), ("in_torch", "numpy"))
    ]
    cells = (*pair, example.torch, values["torch"], example.numpy, values["numpy"], example.kernel, *advice)
    return {} if any("\t" in c or "\n" in c for c in cells) else {pair: "\t".join(cells)}


def of_proof(pairs: frozenset[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], Difference]]:
    """Yield calls of the proof that show a single difference, for pairs that the catalogue's examples do not fit."""
    from rich.progress import track

    from opinfo_tests.proof.minimal_example import shown

    yield from track(shown(pairs, torch_names), "examples from the proof", total=None)


def of_pair(op: str, i: str, declared: dict) -> Iterator[Difference]:
    """Yield examples of a difference for this operator, if there are any."""
    shown = CATALOGUE[i]
    mine = torch_names(op)
    called = [f"aten::{b}" for b in re.findall(r"aten\.(\w+)\(", shown.kernel)]
    if {op, f"{op}_"} & called_by(shown):
        yield shown
        return
    if op.startswith("prims::"):
        return
    ways = [OWN[op, i]] if (op, i) in OWN else MORE.get(i, ())
    for (a, b, c), spelled, n_to in itertools.product(ways, mine[:1], declared[op, i]):
        names = spelled, n_to.replace("numpy.", "np."), f"aten.{op.partition('::')[2]}"
        calls = [
            text.format(f=name, last=name.rpartition(".")[2]) if "{" in text else f"{name}({text})"
            for text, name in zip((a, b, c), names)
        ]
        made = Difference(i, "", calls[0], "", calls[1], "", calls[2], where=shown.where)
        if apart(shown, asked_of(made)):
            yield made
    subjects = [c for c in called if (c, i) in declared] or called[:1]
    for subject, spelled in itertools.product(dict.fromkeys(subjects), mine):
        for n_from, n_to in itertools.product(declared.get((subject, i), ()) or ("",), declared[op, i]):
            for change in CHANGES:
                try:
                    made = Difference(
                        shown.id, shown.title, numpy_value="", torch_value="", where=shown.where,
                        torch=shown.torch if f"{spelled}(" in shown.torch else rewritten(shown.torch, subject, spelled, change),
                        numpy=shown.numpy if n_from == n_to and f"{spelled}(" in shown.torch
                          else rewritten(shown.numpy, n_from, n_to, change),
                        kernel=rewritten(shown.kernel, subject, f"aten.{op.partition('::')[2]}", change),
                        in_torch=_if_can(shown.in_torch, subject, spelled, change),
                        in_numpy=_if_can(shown.in_numpy, n_from, n_to, change),
                    )  # fmt: skip
                except LookupError:
                    continue
                if same_manner(shown, asked_of(made)):
                    yield made


def torch_names(op: str) -> list[str]:
    """Return how Python code calls an op, the best name first."""
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
            named = eval(s, {"torch": torch})
        except AttributeError:
            continue
        runs = resolve.torch_ops(resolve.spelled(s))  # F.unfold is im2col, and not Tensor.unfold
        if not isinstance(named, torch.dtype) and (not runs or runs[0] == op):
            found.append(s)
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
    """Return ``text`` with calls of ``subject`` replaced by calls of ``new``; raise LookupError if there are none."""
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
        spelled = {f"op.{OF_NUMPY.get(subject)}"} | set(
            filter(lambda n: _is(n, subject), re.findall(r"np\.[\w.]+", text))
        )
        new = new.replace("numpy.", "np.")
        if new.startswith("np.ndarray.__"):
            raise LookupError(new)
    calls = _Calls(spelled.__contains__, new, change)
    tree = calls.visit(ast.parse(text, mode="eval"))
    if not calls.count:
        raise LookupError(subject)
    return ast.unparse(ast.fix_missing_locations(tree))


def _is(spelled: str, full: str) -> bool:
    """Return whether a name such as ``np.amax`` stands for the function with this public name."""
    try:
        return spelled == full.replace("numpy.", "np.") or public_name(eval(spelled, {"np": np})) == full
    except AttributeError:
        return False


def asked_of(made: Difference) -> dict[str, str]:
    """Return the values of the expressions that an example has.

    If torch's Python code raises an AssertionError, they are empty, so that the example shows no difference.
    """
    try:
        return run(made, [field for field in FIELDS if getattr(made, field)])
    except AssertionError:
        return {"torch": "", "numpy": "", "kernel": ""}


def lasting(made: Difference) -> bool:
    """Return whether the results are the same every time: random numbers are seeded, or can have only one value."""
    return "random" not in made.numpy or len({(*run(made, ["torch", "numpy"]).values(),) for _ in range(99)}) == 1


def _if_can(text: str, *how) -> str:
    try:
        return rewritten(text, *how) if text else ""
    except LookupError:
        return ""


def apart(shown: Difference, values: dict[str, str]) -> bool:
    """Return whether torch and NumPy differ, other than by a missing argument, and the kernel agrees with torch."""
    raises = [
        ("Error:" in values[side]) == ("Error:" in getattr(shown, f"{side}_value")) for side in ("torch", "numpy")
    ]
    # for these axes NumPy raises errors in some cases, and gives other results in others
    if not all(raises) and shown.id != "zero-dim-axis":
        return False
    if not shows(shown, values["torch"], values["numpy"]):
        return False
    torch, numpy, kernel = values["torch"], values["numpy"], values["kernel"]
    agree = torch.split()[:6] == kernel.split()[:6] if "Error:" in torch else torch == kernel
    wrong = any("Error:" in v and (NOT_THE_POINT.search(v) or v.startswith("TypeError")) for v in (torch, numpy))
    return agree and torch != numpy and not wrong


def same_manner(shown: Difference, values: dict[str, str]) -> bool:
    """Return whether torch and NumPy differ in the same way as in the catalogue, and the kernel agrees with torch."""
    torch, numpy, kernel = values["torch"], values["numpy"], values["kernel"]
    raised = "Error:" in torch
    agree = torch.split()[:6] == kernel.split()[:6] if raised else torch == kernel
    if not agree or any("Error:" in v and NOT_THE_POINT.search(v) for v in (torch, numpy)):
        return False
    return shows(shown, torch, numpy) and relation(torch, numpy) == relation(shown.torch_value, shown.numpy_value)


def relation(torch: str, numpy: str) -> tuple[bool, ...]:
    parts = [re.match(r"(\w+)\[([\d, ]*)\] (.*)", v) for v in (torch, numpy)]
    a, b = parts
    known = a is not None and b is not None
    return (
        "Error:" in torch, "Error:" in numpy, torch == numpy, known,
        bool(known and a[1] == b[1]), bool(known and a[2] == b[2]),
    )  # fmt: skip
