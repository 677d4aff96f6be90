"""Run torch next to each kernel, op by op, and report the first op whose results differ."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

from torchnp.core.registry import FAILURES
from torchnp.derived.overlapping_writes import is_promised
from torchnp.interop._private import is_zero, schema_of
from torchnp.interop.convert import as_torchs, to_numpy
from torchnp.interop.kernel_runner import Foreign, OnMeta, OnSparse, Run
from torchnp.interop.ops_left_to_torch import UNINITIALIZED
from torchnp.interop.rng_sync import find_generator, is_random
from torchnp.interop.rnn_workspace import Workspace
from torchnp.interop.tolerance import ErrorBounds, terms

Tensor = torch.Tensor


class CrossCheckError(AssertionError):
    """Raised when a kernel and torch disagree.

    Attributes
    ----------
    op : str
        Full overload name.
    aspect : str
        ``values``, ``dtype``, ``shape``, ``aliasing``, ``written argument``, ``error``, ``generator`` or ``result``.
    """

    def __init__(self, message: str, op: str = "", aspect: str = "") -> None:
        super().__init__(message)
        self.op, self.aspect = op, aspect


# Indices of results whose values torch does not define: undefined memory, and factors that are unique only up to sign
# or phase.
_FREE_RESULTS = {
    "aten::_linalg_svd": {0, 2},
    "aten::_linalg_eigh": {1},
    "aten::linalg_eig": {1},
    "aten::_ctc_loss": {1},  # log_alpha is undefined beyond the target's length
    "aten::_ctc_loss.Tensor": {1},
}


# The second result of these ops holds positions; among equal values torch may pick any.
_TIES = frozenset({"sort", "topk", "kthvalue", "mode", "median", "nanmedian"})


def compare_with_torch(
    func: Any, run: Run, args: tuple, kwargs: dict[str, Any], number: int, ties: Counter[str]
) -> Any:
    """Run the kernel on the arguments and torch on copies of them; return the kernel's results.

    ``ties`` counts the calls in which kernel and torch picked different positions among equal values.

    Raises
    ------
    CrossCheckError
        The kernel and torch disagree.
    """
    call = _Call(func, args, kwargs, number)
    copies = _Copies()
    try:
        their_args, their_kwargs = copies.of(args), {k: copies.of(v) for k, v in kwargs.items()}
    except (RuntimeError, TypeError, NotImplementedError):
        # The argument has no plain memory to copy: the run raises the error.
        return run(args, kwargs)
    generator = (find_generator(args, kwargs) or torch.default_generator) if is_random(func) else None
    theirs, refusal, after = _ask_torch(func, their_args, their_kwargs, generator)
    ours = _run_kernel(call, run, args, kwargs, refusal)

    uninitialized = _packet(call.name) in UNINITIALIZED
    free = {0} if uninitialized else _FREE_RESULTS.get(call.name, set())
    expected, got = list(_leaves(theirs)), list(_leaves(ours))
    if len(expected) != len(got):
        raise call.error("result", f"torch returns {len(expected)} results, the kernel {len(got)}")
    picks = _packet(call.name) in _TIES and len(got) == 2 and not torch.equal(expected[1], got[1])
    if picks and _same_picks(func, their_args, their_kwargs, expected, got):
        free = {1}
        ties[call.name] += 1
    call.terms = terms(func, [x for x in _leaves([*their_args, *their_kwargs.values()]) if isinstance(x, Tensor)])
    loose = call.writes and _in_no_order([original for _, original in copies.pairs()])
    for i, (e, g) in enumerate(zip(expected, got, strict=True)):
        what = ("numbers drawn: " if generator else "") + ("result" if len(got) == 1 else f"result {i}")
        _compare(call, "values", what, e, g, values=i not in free and not loose)
    _compare_aliasing(call, expected, got, list(copies.pairs()))
    for i, (e, g) in enumerate(copies.pairs()):
        _compare(
            call, "written argument", f"tensor argument {i} after the op", e, g, values=not (uninitialized or loose)
        )
    if generator and after is not None and not torch.equal(after, generator.get_state()):
        raise call.error("generator", "the random generator is left at another point of its stream")
    return ours


def _ask_torch(
    func: Any, args: tuple, kwargs: dict[str, Any], generator: torch.Generator | None
) -> tuple[Any, Exception | None, Tensor | None]:
    """Return torch's results or error, and the generator state that torch leaves; restore the earlier state."""
    before = generator.get_state() if generator else None
    theirs, refusal = None, None
    try:
        with warnings.catch_warnings(action="ignore"):  # the kernel's run warns as well
            theirs = func(*args, **kwargs)
    except FAILURES as error:
        refusal = error
    if generator is None or before is None:
        return theirs, refusal, None
    after = generator.get_state()
    generator.set_state(before)
    return theirs, refusal, after


def _run_kernel(call: _Call, run: Run, args: tuple, kwargs: dict[str, Any], refusal: Exception | None) -> Any:
    """Return the kernel's results.

    If the kernel fails, raise its error if torch raised the same class, else a `CrossCheckError`.
    """
    try:
        ours = run(args, kwargs)
    except (OnMeta, OnSparse, Foreign):
        raise
    except FAILURES as error:
        raised = f"the kernel raises {type(error).__name__}: {error}"
        if refusal is None:
            raise call.error("error", f"torch computes this; {raised}") from error
        if not isinstance(refusal, type(as_torchs(error))):
            text = f"torch raises {type(refusal).__name__}: {refusal}\n{raised}"
            raise call.error("error", text) from error
        raise
    if refusal is not None:
        text = f"torch raises {type(refusal).__name__}: {refusal}\nthe kernel gives a result"
        raise call.error("error", text) from refusal
    return ours


_SAME, _SHARED = "the same tensor", "on one storage"


def _packet(name: str) -> str:
    return name.removeprefix("aten::").partition(".")[0]


def _same_picks(func: Any, args: tuple, kwargs: dict[str, Any], expected: list[Any], got: list[Any]) -> bool:
    """Return whether two position tensors pick equal values; a stable sort allows no choice."""
    names = [a.name for a in schema_of(func).arguments]
    bound = dict(zip(names, args, strict=False)) | kwargs
    x, dim = bound["self"], bound.get("dim", -1)
    if bound.get("stable") or not x.ndim or expected[1].shape != got[1].shape or not x.numel():
        return False
    picked = []
    for positions in (expected[1], got[1]):
        at = positions if positions.ndim == x.ndim else positions.unsqueeze(dim)
        if at.dtype != torch.int64 or not bool(((at >= 0) & (at < x.shape[dim])).all()):
            return False
        picked.append(x.gather(dim, at))
    return ErrorBounds.of(picked[0], []).allow(*picked)


def _in_no_order(tensors: list[Tensor]) -> bool:
    """Return whether a tensor may be written while another on its memory is read, in an undefined order."""
    tensors = [x for x in tensors if not is_zero(x)]
    held = Counter(id(x.untyped_storage()) for x in tensors)
    arrays = [to_numpy(x) for x in tensors if held[id(x.untyped_storage())] > 1]
    return any(not is_promised(a, b) for a in arrays[:_FEW] for b in arrays if a is not b)


_FEW = 16  # maximum number of tensors with shared storages that are compared with all the others


class _Call:
    """A call's description for error messages, recorded before anything is written."""

    def __init__(self, func: Any, args: tuple, kwargs: dict[str, Any], number: int) -> None:
        self.name, self.number = func.name(), number
        self.terms: list[Any] = []
        self.writes = schema_of(func).is_mutable
        self.shapes = [_describe(x) for x in args] + [f"{k}={_describe(v)}" for k, v in kwargs.items()]

    def error(self, aspect: str, text: str) -> CrossCheckError:
        message = f"{self.name} (op {self.number} under the mode) disagrees with torch: {aspect}\n"
        message += f"inputs: {', '.join(self.shapes)}\n{text}"
        return CrossCheckError(message, self.name, aspect)


def _describe(x: Any) -> str:
    if isinstance(x, Tensor):
        flags = "".join(flag for flag, on in ((" conj", x.is_conj()), (" neg", x.is_neg())) if on)
        if x.layout != torch.strided:
            return f"{str(x.dtype).removeprefix('torch.')}{list(x.size())} {x.layout}"
        layout = "" if x.is_contiguous() else f" strides {list(x.stride())}"
        return f"{str(x.dtype).removeprefix('torch.')}{list(x.size())}{layout}{flags}"
    if isinstance(x, (list, tuple)) and any(isinstance(y, Tensor) for y in x):
        return f"[{', '.join(map(_describe, x))}]"
    return repr(x)


class _Copies:
    """Copies of tensors; two copies share memory if their originals do."""

    def __init__(self) -> None:
        self._storages: dict[int, Any] = {}
        self._tensors: dict[int, tuple[Tensor, Tensor]] = {}

    def of(self, x: Any) -> Any:
        if isinstance(x, Tensor):
            if id(x) not in self._tensors:
                self._tensors[id(x)] = (self._copy(x), x)
            return self._tensors[id(x)][0]
        if isinstance(x, (list, tuple)):
            return type(x)(map(self.of, x))
        return x

    def _copy(self, x: Tensor) -> Tensor:
        if isinstance(x, Workspace):
            raise TypeError("a workspace has no memory")
        if is_zero(x):
            return torch.ops.aten._efficientzerotensor.default(x.size(), dtype=x.dtype)
        storage = x.untyped_storage()
        key = id(storage)  # torch keeps one Python object for each live storage
        if key not in self._storages:
            self._storages[key] = storage.clone()
        made = torch.empty(0, dtype=x.dtype, device=x.device)
        made = made.set_(self._storages[key], x.storage_offset(), x.size(), x.stride())
        if x.is_conj():
            made = made.conj()
        return torch.ops.aten._neg_view.default(made) if x.is_neg() else made

    def pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the copy and the original of each tensor argument."""
        return iter(self._tensors.values())


def _leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, (list, tuple)):
        for y in x:
            yield from _leaves(y)
    else:
        yield x


def _compare(call: _Call, aspect: str, what: str, expected: Any, got: Any, *, values: bool = True) -> None:
    if not isinstance(expected, Tensor) or not isinstance(got, Tensor):
        same = expected is got or (type(expected) is type(got) and _equal_numbers(expected, got))
        if values and not same:
            raise call.error(aspect, f"{what}: torch {expected!r}, kernel {got!r}")
        return
    for name, e, g in (("dtype", expected.dtype, got.dtype), ("shape", expected.size(), got.size())):
        if e != g:
            raise call.error(name, f"{what}: torch {e}, kernel {g}")
    limits = ErrorBounds.of(expected, call.terms)
    if values and not limits.allow(expected, got):
        raise call.error(aspect, f"{what}: {limits.broken_by(expected, got)}")


def _equal_numbers(a: Any, b: Any) -> bool:
    return a == b or (a != a and b != b)


def _compare_aliasing(call: _Call, expected: list[Any], got: list[Any], pairs: list[tuple[Tensor, Tensor]]) -> None:
    for i, (e, g) in enumerate(zip(expected, got, strict=True)):
        if not isinstance(e, Tensor):
            continue
        for j, (copy, original) in enumerate(pairs):
            theirs, ours = _relation(e, copy), _relation(g, original)
            if theirs != ours and not (theirs == _SAME and ours == _SHARED and not call.writes):
                raise call.error("aliasing", f"result {i} and tensor argument {j}: in torch {theirs}, here {ours}")
            if theirs == _SHARED and e.numel():
                where = [(_steps(x), x.storage_offset()) for x in (e, g)]
                if where[0] != where[1]:
                    raise call.error(
                        "aliasing",
                        f"result {i} is a view with strides and offset {where[0]} in torch, {where[1]} here",
                    )


def _steps(x: Tensor) -> list[int | None]:
    """Return the strides, with None for dimensions of at most one element."""
    return [s if n > 1 else None for n, s in zip(x.shape, x.stride(), strict=True)]


def _relation(result: Tensor, argument: Tensor) -> str:
    if result is argument:
        return _SAME
    a, b = result.untyped_storage(), argument.untyped_storage()
    if a is b:
        return _SHARED
    overlap = a.data_ptr() < b.data_ptr() + b.nbytes() and b.data_ptr() < a.data_ptr() + a.nbytes()
    return "on one memory by two storages" if overlap else "on two storages"
