"""Random torch programs on plain tensors and on handles; a program that differs is reduced to the lines that matter.

A program is a list of lines of Python over ``v0``, ``v1``, ...; ``send`` makes its inputs. Values are small integers
and results of a few exact operations on them, so rounding cannot matter. ``python -m
torchnp.tests.rpc.random_torch_programs 10000`` runs that many.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from torchnp import rpc
from torchnp.tests.rpc.keyed_random import Keyed

DTYPES = (
    ["float64"] * 6 + ["float32"] * 5 + ["int64"] * 4 + ["complex128"] * 4 + ["complex64", "int32", "uint8", "bool", "bool", "float16"]
)  # fmt: skip
LARGEST = 2.0**12

# ---------------------------------------------------------------- what lines there are


class Draw:
    """Draws one line, given the shapes and dtypes of the variables so far."""

    def __init__(self, rng: random.Random, variables: dict[str, torch.Tensor], writes: bool = False) -> None:
        self.rng, self.variables, self.writes = rng, variables, writes
        self.x = next(iter(variables))
        self.x = self.variable()

    def variable(self, want: Callable[[torch.Tensor], Any] | None = None) -> str:
        """Draw a variable, preferably a recent one, and one that satisfies the condition if possible."""
        names = [n for n, v in self.variables.items() if want is None or want(v)] or [self.x]
        return names[max(self.rng.randrange(len(names)), self.rng.randrange(len(names)))]

    def tensor(self, name: str | None = None) -> torch.Tensor:
        return self.variables[name or self.x]

    def like(self) -> str:
        """Draw a variable that mostly fits x in an elementwise operator.

        In torch the result is undefined if an operand shares memory with the target, unless both are the same tensor.
        """
        x = self.tensor()

        def fits(v: torch.Tensor) -> bool:
            try:
                torch.broadcast_shapes(v.shape, x.shape)
            except RuntimeError:
                return False
            return apart(v)

        def apart(v: torch.Tensor) -> bool:
            return v is x or not self.writes or v.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()

        return self.variable(fits if self.rng.random() < 0.95 else apart)

    def other(self) -> str:
        """Draw the second operand of an elementwise operator: a variable, a number or a plain tensor."""
        kind = self.rng.random()
        if kind < 0.6:
            return self.like()
        if kind < 0.85:
            return self.number()
        return f"torch.tensor({self.number()})"

    def number(self) -> str:
        return self.rng.choice(["2", "-1", "3", "0.5", "2.0", "True", "1j", "0"])

    def dim(self) -> int:
        n = self.tensor().dim()
        return self.rng.randint(-n, n - 1) if n else self.rng.choice([0, -1])

    def dims(self) -> str:
        return self.rng.choice([f"{self.dim()}", f"({self.dim()},)", "None"])

    def size(self, dim: int) -> int:
        x = self.tensor()
        return x.shape[dim] if x.dim() else 1

    def at(self, dim: int) -> int:
        n = self.size(dim)
        return self.rng.randint(-n, n - 1 if self.rng.random() < 0.95 else n) if n else 0

    def slice(self, n: int) -> str:
        a, b = sorted((self.rng.randint(0, n), self.rng.randint(0, n)))
        return self.rng.choice([f"{a}:{max(b, a + 1)}", f"{a}:", ":", f"::{self.rng.randint(1, 2)}"])

    def index(self) -> str:
        """Draw an index expression."""
        x = self.tensor()
        parts = []
        for n in x.shape[: self.rng.randint(0, x.dim())]:
            kind = self.rng.random()
            if kind < 0.35 and n:
                parts.append(str(self.rng.randrange(-n, n)))
            elif kind < 0.75:
                parts.append(self.slice(n))
            elif kind < 0.9 and n:
                parts.append(f"torch.tensor({[self.rng.randrange(-n, n) for _ in range(self.rng.randint(1, 3))]})")
            elif kind < 0.95:
                parts.append("None")
                parts.append(":")
            else:
                parts.append(f"torch.tensor({[bool(self.rng.getrandbits(1)) for _ in range(n)]}, dtype=torch.bool)")
        return ", ".join(parts) if parts else "..."

    def shape(self) -> str:
        """Draw another shape with the same number of elements."""
        n = self.tensor().numel()
        divisors = [d for d in range(1, n + 1) if n % d == 0] or [0]
        d = self.rng.choice(divisors)
        return self.rng.choice([f"{(d, n // d if d else 1)}", f"({d}, -1)", "-1", f"{(1, n)}"])

    def dtype(self) -> str:
        return f"torch.{self.rng.choice(DTYPES)}"


def choose(*lines: str) -> Callable[[Draw], str]:
    """Draw one of several lines; names in braces are methods or attributes of the draw."""

    def build(d: Draw) -> str:
        line = d.rng.choice(lines)
        for name in ("x", "other", "like", "number", "dim", "dims", "index", "shape", "dtype"):
            while f"{{{name}}}" in line:
                value = getattr(d, name)
                line = line.replace(f"{{{name}}}", str(value() if callable(value) else value), 1)
        return line

    return build


def _at(d: Draw, line: str) -> str:
    dim = d.dim()
    n = d.size(dim)
    start = d.rng.randint(0, max(n - 1, 0))
    return line.format(x=d.x, dim=dim, at=d.at(dim), start=start, length=d.rng.randint(0, n - start) if n else 0, n=n)


# fmt: off
VIEWS = [
    choose("{x}[{index}]"),
    choose("{x}.T", "{x}.mT", "{x}.mH", "{x}.t()", "{x}.H"),
    choose("{x}.transpose({dim}, {dim})", "{x}.movedim({dim}, {dim})", "{x}.swapaxes({dim}, {dim})"),
    choose("{x}.unsqueeze({dim})", "{x}.squeeze()", "{x}.squeeze({dim})"),
    choose("{x}.view({shape})", "{x}.reshape({shape})", "{x}.flatten()", "{x}.ravel()", "{x}.view_as({like})"),
    choose("{x}.conj()", "{x}.real", "{x}.imag", "torch._neg_view({x})", "torch.view_as_real({x})"),
    choose("{x}.detach()", "{x}.data", "{x}.view_as({x})"),
    choose("{x}.expand_as({like})", "{x}.expand(2, *{x}.shape)", "{x}.broadcast_to({like}.shape)"),
    choose("{x}.diagonal()", "torch.diag_embed({x})", "{x}.unfold({dim}, 1, 1)"),
    lambda d: _at(d, "{x}.select({dim}, {at})"),
    lambda d: _at(d, "{x}.narrow({dim}, {start}, {length})"),
    lambda d: _at(d, "{x}.chunk(2, {dim})[-1]"),
    lambda d: _at(d, "{x}.split(1, {dim})[0]"),
    lambda d: _at(d, "{x}.split([1, {n} - 1], {dim})[1]"),
    lambda d: _at(d, "{x}.unbind({dim})[{at}]"),
    lambda d: _at(d, "{x}.tensor_split(2, {dim})[0]"),
    choose("{x}.as_strided((2,), (1,), 0)", "{x}.as_strided((1, 2), (2, 1), 1)"),
]
POINTWISE = [
    choose("{x} + {other}", "{x} - {other}", "{x} * {other}", "{other} * {x}", "{other} - {x}"),
    choose(
        "torch.add({x}, {other}, alpha=2)", "torch.sub({x}, {other}, alpha=3)", "torch.addcmul({x}, {like}, {like})"
    ),
    choose("{x} / 2", "{x} // 2", "{x} % 3", "-{x}", "abs({x})", "{x} ** 2", "2 ** {x}.clamp(0, 3)"),
    choose(
        "{x} > {other}", "{x} == {other}", "{x} <= {other}", "{x} != {other}", "~{x}", "{x} & {other}", "{x} | {other}"
    ),
    choose("{x}.clamp(-2, 2)", "{x}.clamp(min={like})", "torch.maximum({x}, {like})", "{x}.sign()", "{x}.sgn()"),
    choose(
        "torch.where({x} > 0, {x}, {other})",
        "torch.where({like} > 0, {like}, {x})",
        "{x}.masked_fill({like} > 0, {number})",
    ),
    choose(
        "{x}.relu()", "F.leaky_relu({x}, 0.5)", "{x}.round()", "{x}.floor()", "{x}.square()", "{x}.sin()", "{x}.tanh()"
    ),
    choose("{x}.to({dtype})", "{x}.to({like})", "{x}.type_as({like})", "{x}.double()", "{x}.bool()", "{x}.cfloat()"),
    choose("{x}.clone()", "{x}.contiguous()", "torch.zeros_like({x})", "{x}.new_ones(2, 3)", "torch.full_like({x}, 2)"),
    choose(
        "torch.complex({x}, {like})",
        "torch.view_as_complex({x})",
        "({x} + 0).angle()",  # for x - 0j, torch gives pi or -pi, depending on the address of x
        "{x}.conj_physical()",
        "{x}.resolve_conj()",
    ),
    choose(
        "torch.lerp({x}, {like}, 0.5)",
        "torch.stack([{x}, {like}])",
        "torch.cat([{x}, {like}])",
        "torch.cat([{x}, {x}], {dim})",
    ),
    choose(
        "F.dropout({x}, 0.5)", "torch.rand_like({x}) < 2", "torch.bernoulli({x} * 0)", "torch.empty_like({x}).fill_(3)"
    ),
]
REDUCTIONS = [
    choose("{x}.sum()", "{x}.sum({dims})", "{x}.sum({dim}, keepdim=True)", "{x}.sum(dtype={dtype})", "{x}.mean()", "{x}.mean({dim})"),
    choose("{x}.amax({dim})", "{x}.max()", "{x}.max({dim})[0]", "{x}.min({dim})[1]", "{x}.argmax({dim})", "{x}.any({dim})", "{x}.all()"),
    choose("{x}.cumsum({dim})", "{x}.prod({dim})", "{x}.flip({dim})", "{x}.roll(1, {dim})", "{x}.sort({dim}, stable=True)[0]"),
    choose("{x}.norm()", "{x}.logsumexp({dim})", "F.softmax({x}, {dim})", "{x}.topk(1, {dim})[0]", "{x}.tril()"),
    choose("{x} @ {other}", "{x} @ {x}.mT", "{x} @ {x}.mH", "torch.mm({x}, {like})", "torch.outer({x}, {x})", "F.linear({x}, {x})"),
    choose("torch.einsum('...i,...i->...', {x}, {like})", "torch.dot({x}, {x})", "torch.vdot({x}, {x})"),
    choose("{x}.index_select({dim}, torch.tensor([0]))", "{x}.gather({dim}, torch.zeros_like({x}, dtype=torch.int64))"),
    choose("torch.take_along_dim({x}, {x}.argsort({dim}, stable=True), {dim})", "{x}.repeat(2, *[1] * {x}.dim())", "{x}.tile(2)"),
    choose("{x}.index_add({dim}, torch.tensor([0]), {x}.narrow({dim}, 0, 1))",
      "{x}.scatter({dim}, torch.zeros_like({x}, dtype=torch.int64), 1)"),
]
WRITES = [
    choose("{x}[{index}] = {other}", "{x}[{index}] += {number}", "{x}[{index}] *= {number}"),
    choose("{x}.add_({other})", "{x}.mul_({other})", "{x}.sub_({other}, alpha=2)", "{x}.div_(2)", "{x}.neg_()", "{x}.pow_(2)"),
    choose("{x}.copy_({other})" , "{x}.copy_({like})", "{x}.fill_({number})", "{x}.zero_()", "{x}.clamp_(-2, 2)", "{x}.relu_()"),
    choose("{x}.masked_fill_({like} > 0, {number})", "{x}.index_fill_({dim}, torch.tensor([0]), {number})", "{x}.tril_()"),
    choose("{x}.T.mul_({number})", "{x}.conj().add_({number})", "{x}.imag.add_({number})", "{x}.real.mul_({number})",
      "{x}.mH.add_({number})"),
    choose("{x}.data.add_(1)", "{x}.detach().mul_(2)", "{x}.requires_grad_()"),
    choose("torch.add({x}, {other}, out={x})", "torch.mul({x}, {like}, out={like})",
      "torch.sum({x}.clone(), {dim}, out={like})", "torch.abs({x}, out={x})"),
    choose("exec('with torch.no_grad(): {x}.mul_(2)')", "exec('with torch.no_grad(): {x}.zero_()')"),
    choose("torch._foreach_add_([{x}], 1)", "torch._foreach_mul_([{x}], [{like}])", "{x}.index_put_((torch.tensor([0]),), {like})"),
    choose("{x}.scatter_add_({dim}, torch.zeros_like({x}, dtype=torch.int64), {x}.clone())", "{x}.diagonal().fill_(2)",
      "{x}.view(-1)[:1].mul_(3)"),
]
GRADIENTS = [
    choose("{x}.sum().abs().backward()", "{x}.sum().abs().backward(retain_graph=True)", "{x}.backward({x}.detach())"),
    choose(
        "{x}.retain_grad()",
        "{x}.requires_grad_()",
        "{x}.grad.zero_()",
        "exec('{x}.grad = None')",
        "{x}.grad.add_({x}.grad)",
    ),
]
RESULTS = [
    choose("torch.autograd.grad({x}.sum().abs(), {like}, allow_unused=True, retain_graph=True)[0]"),
    choose("torch.autograd.grad({x}.square().sum().abs(), {like}, allow_unused=True, create_graph=True)[0]"),
    choose("{x}.grad", "torch.func.grad(lambda x: x.square().sum())({x})", "torch.func.vmap(lambda x: x * 2)({x})"),
    choose("torch.func.jvp(lambda x: x * x, ({x},), ({x},))[1]", "torch._foreach_add([{x}, {like}], 1)[0]"),
    choose("torch.utils.checkpoint.checkpoint(lambda x: x * x.tanh(), {x}, use_reentrant=False)"),
]
# fmt: on
KINDS = [VIEWS] * 6 + [POINTWISE] * 6 + [REDUCTIONS] * 3 + [WRITES] * 5 + [RESULTS] * 1
STATEMENTS = [WRITES, GRADIENTS]


# ---------------------------------------------------------------- a program


def beginning(rng: random.Random) -> list[str]:
    """Draw the inputs, with shapes that fit together."""
    a, b = rng.randint(1, 4), rng.randint(1, 4)
    lines = []
    for i in range(rng.randint(2, 4)):
        shape = rng.choice(
            [(a, b), (a, b), (b,), (a, 1), (2, a, b), (), (b, b), (0, b) if rng.random() < 0.3 else (1, b)]
        )
        dtype = rng.choice(DTYPES)
        values = f"torch.arange({rng.randint(-3, 1)}, 99)[: {torch.Size(shape).numel()}].reshape({shape})"
        if dtype.startswith("complex"):
            values = f"({values} * {rng.choice(['1j', '(1 + 2j)'])})"
        layout = ".mT.contiguous().mT" if len(shape) > 1 and rng.random() < 0.3 else ""
        grad = dtype.startswith(("float", "complex")) and rng.random() < 0.6
        lines.append(f"v{i} = send(({values}).to(torch.{dtype}){layout}, {grad})")
    return lines


def tensors(scope: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {n: v for n, v in scope.items() if n.startswith("v") and isinstance(v, torch.Tensor)}


def scope_with(send: Callable[[torch.Tensor, bool], torch.Tensor]) -> dict[str, Any]:
    return {"torch": torch, "F": F, "send": send}


def plain() -> dict[str, Any]:
    return scope_with(lambda t, grad: t.clone().requires_grad_(grad))


def step(line: str, scope: dict[str, Any]) -> Exception | None:
    """Run a line, and return the error that it raises."""
    try:
        exec(line, scope)
    except (
        RuntimeError,
        ValueError,
        TypeError,
        IndexError,
        NotImplementedError,
        AttributeError,
        ZeroDivisionError,
    ) as error:
        return error
    except NameError as error:  # a name that a removed line would have defined
        return error
    return None


def tame(x: torch.Tensor) -> bool:
    """Return whether a tensor's values cannot depend on rounding, and none will overflow soon."""
    if x.is_neg() and x.dtype == torch.bool:  # almost no operator can read such a tensor
        return False
    x = x.detach().resolve_conj().resolve_neg()
    x = torch.view_as_real(x) if x.is_complex() else x
    return x.numel() < 3000 and bool(torch.isfinite(x).all() and (x.double().abs() < LARGEST).all())


def drawn(seed: int, length: int = 14) -> list[str]:
    """Draw a program that plain torch can run to its end."""
    rng = random.Random(seed)
    lines = beginning(rng)
    scope = plain()
    torch.manual_seed(seed)
    with Keyed():
        for line in lines:
            step(line, scope)
        for _ in range(length):
            kind = rng.choice(KINDS) if rng.random() < 0.9 else GRADIENTS
            d = Draw(rng, tensors(scope), kind is WRITES)
            line = rng.choice(kind)(d)
            if kind not in STATEMENTS:
                line = f"v{len(lines)} = {line}"
            if step(line, scope) is not None and rng.random() < 0.9:
                continue
            if not all(map(tame, tensors(scope).values())):
                break
            lines.append(line)
    return lines


# ---------------------------------------------------------------- both ways


def about(x: torch.Tensor, versions: bool = True, lazy: bool = True) -> tuple:
    """Return a tensor's metadata as a client sees it; for handles, autograd replays views that it restrides.

    Without ``versions``, it omits whether the tensor was written or is a view; without ``lazy``, whether it is a lazy
    conjugate.
    """
    try:
        node = x.grad_fn is not None
    except RuntimeError as error:  # a view made without gradients was written with gradients
        return (str(error),)
    strides = tuple(s for n, s in zip(x.shape, x.stride(), strict=True) if n > 1) if x.numel() else ()
    return (
        tuple(x.shape), x.dtype, strides, x.storage_offset() if x.numel() else 0, x.requires_grad, x.is_leaf, x._version * versions,
        x.is_conj() and lazy, x.is_neg() and lazy, x.is_contiguous(), node, x.grad is not None, x._is_view() and versions,
    )  # fmt: skip


def difference(lines: list[str], session: rpc.Session) -> str:
    """Return how a program's behaviour on handles differs, or ""."""
    here, there = plain(), scope_with(lambda t, grad: session.send(t, grad))
    with contextlib.suppress(rpc.RemoteOpError):
        session.sync()
    torch.manual_seed(1)
    with Keyed():
        wanted = [step(line, here) for line in lines]
    torch.manual_seed(1)
    lost = False
    for line, want in zip(lines, wanted, strict=True):
        got = step(line, there)
        try:
            session.sync()
        except (rpc.RemoteOpError, rpc.RPCError) as error:
            got, lost = error, True
        if isinstance(got, rpc.HandleError) and "a handle is not resized" in str(got):
            return ""
        if "Autograd not support dtype: " in str(
            got
        ):  # torch says so for any wrapper subclass if bools or integers get gradients
            return ""
        if (got is None) != (want is None):
            return f"{line}\n  raises {got!r}, torch {want!r}"
        if isinstance(got, rpc.ProtocolError):
            return f"{line}\n {got!r}"
        if lost:  # the result that should have been written has no value any more
            return ""
    # Autograd adds up gradients of plain tensors in place, or has views of them, and adds up those of subclasses out of
    # place.
    gradients = {w.partition(" = torch.autograd.grad")[0] for w in lines if " = torch.autograd.grad" in w}
    added = {_memory(x) for n, x in tensors(here).items() if n in gradients}
    for name, x in tensors(here).items():
        y = there[name]
        if _nowhere(x):
            continue
        written = _memory(x) not in added
        lazy = session.strided  # otherwise conjugates are computed
        if about(x, written, lazy) != about(y, written, lazy):
            return f"{name} is {about(y, written, lazy)}, torch's {about(x, written, lazy)}"
        if len(about(x)) == 1:
            continue
        for a, b in ((x, y), (x.grad, y.grad)) if x.is_leaf else ((x, y),):
            if a is not None and (said := unequal(a, b)):
                return f"{name}: {said}"
    return ""


def _memory(x: torch.Tensor) -> int:
    return x.untyped_storage()._cdata


def _nowhere(x: torch.Tensor) -> bool:
    """Return whether a tensor's node has no inputs: a view with a gradient was written, whose base has none.

    For a plain tensor torch makes such a node; for a subclass it fails an assertion.
    """
    with contextlib.suppress(RuntimeError):
        return x.grad_fn is not None and all(node is None for node, _ in x.grad_fn.next_functions)
    return False


def unequal(x: torch.Tensor, handle: Any) -> str:
    want = x.detach().resolve_conj().resolve_neg()
    tolerance = 1e-2 if want.dtype in (torch.float16, torch.complex32) else 1e-5
    try:
        # A few gradients of torch that are always zero (sgn's) do not depend on a tensor, so they are plain.
        got = handle.publish() if isinstance(handle, rpc.BaseHandleTensor) else handle
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    except (AssertionError, rpc.RPCError, rpc.RemoteOpError) as error:
        return str(error)
    return ""


def shortened(lines: list[str], session: rpc.Session) -> list[str]:
    """Return the lines that are needed for the difference."""
    i = len(lines) - 1
    while i >= 0:
        fewer = lines[:i] + lines[i + 1 :]
        said = difference(fewer, session)
        if said and "NameError" not in said:
            lines = fewer
        i -= 1
    return lines


def compare(seed: int, session: rpc.Session) -> str:
    """Run one program both ways; return a shortest program that differs, with the difference, or ""."""
    with warnings.catch_warnings(action="ignore"):
        lines = drawn(seed)
        if not difference(lines, session):
            return ""
        lines = shortened(lines, session)
        return "\n".join([f"seed {seed}", *lines, "--> " + difference(lines, session)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "seeds", type=int, nargs="+", help="how many programs, or the first seed and the one after the last"
    )
    first, last = ([0, *parser.parse_args().seeds])[-2:]
    found = 0
    for seed in range(first, last):
        if sys.stderr.isatty():
            print(f"\rprogram {seed} of {last}, {found} differ", end="", file=sys.stderr, flush=True)
        with rpc.local() as session:
            said = compare(seed, session)
            session.channel.close()
        if said:
            found += 1
            print(said, end="\n\n", flush=True)
    print(f"{last - first} programs, {found} differ")


if __name__ == "__main__":
    main()
