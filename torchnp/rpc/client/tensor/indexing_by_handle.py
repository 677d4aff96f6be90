"""``x[i]`` where ``i`` is a 0-d handle: torch reads the value of ``i`` and returns a view; here ``x[i]`` is a copy.

The value stays on the server, so the client cannot know which part of ``x`` to view. Two uses would show the difference
and are refused: writing into the copy, and using the copy after ``x`` has been written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from torchnp.engine.tensor.overload_info import alternative, plan_of, written_of
from torchnp.engine.tensor.shape_inference import DYNAMIC
from torchnp.engine.tensor.tracing import leave_to_torch_compile, recorded
from torchnp.engine.tensor.unsupported import NoValues, is_count
from torchnp.interop._private import OpOverload, is_recorded, leave_to_python, version_of
from torchnp.rpc.client.tensor.rpctensor import RPCTensor
from torchnp.rpc.exceptions import HandleError, ValueAccessError

aten = torch.ops.aten
NOT_A_VIEW = "x[i] is a copy where i is on the server"  # reason of a refusal
_MASKS = (torch.bool, torch.uint8)
_Source = tuple[torch.Tensor, int]  # the tensor from which the copy was made, and its version at that time


class PickedTensor(RPCTensor):
    """A handle on a copy of a part of another handle, or on a view of such a copy."""

    _source: _Source

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: OpOverload, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if is_recorded():
            return recorded(cls, func, args, kwargs or {})
        plan, kwargs = plan_of(func), kwargs or {}
        picked = list(_picked_of((*args, *kwargs.values())))
        for x in picked:
            x._check()
        if any(isinstance(x, PickedTensor) for x in written_of(plan, args, kwargs)):
            raise HandleError(
                f"{plan.name} would write into x[i], which is a copy where i is on the server: write x[i] = value, and "
                "x[i] = x[i] + 1 for x[i] += 1",
                NOT_A_VIEW,
            )
        if plan.special == "bits":  # a lazy conjugate would be another way to write
            return _marked(aten._conj_physical(*args) if plan.base == "_conj" else aten.neg(*args), picked[0]._source)
        result = RPCTensor.__torch_dispatch__(func, types, args, kwargs)
        if plan.special != "share" and "view" not in plan.returns:
            return result
        for view in result if isinstance(result, (list, tuple)) else (result,):
            _marked(view, picked[0]._source)
        return result

    def _again(self) -> Any:
        return _marked(RPCTensor._wrap(self._spec, self._object), self._source)

    def _check(self) -> None:
        source, version = self._source
        if _version(source) != version:
            raise HandleError(
                "x has been written to since x[i], which is a copy where i is on the server: take x[i].clone() for what it was, "
                "or x[i] once more for what it is",
                NOT_A_VIEW,
            )

    def publish(self, **terms: Any) -> torch.Tensor:
        """Publish the values like `RPCTensor.publish`; refuse if ``x`` has been written since the copy was made."""
        self._check()
        return super().publish(**terms)


leave_to_torch_compile(PickedTensor)


def _picked_of(given: tuple) -> Iterator[PickedTensor]:
    for a in given:
        for x in a if isinstance(a, (list, tuple)) else (a,):
            if isinstance(x, PickedTensor):
                yield x


def _version(x: torch.Tensor) -> int:
    """Return the version counter of a tensor; 0 for inference tensors, which have none."""
    return 0 if x.is_inference() else version_of(x)


def _marked(x: Any, source: _Source) -> Any:
    x.__class__ = PickedTensor  # autograd made the handle and knows this very object
    x._source = source
    return x


def get_item(x: Any, index: Any) -> Any:
    """Return ``x[index]`` for a handle ``x``."""
    if _is_plain(index):
        return torch.Tensor.__getitem__(x, index)
    indices, rest = _split(x, index)
    if not indices:
        return torch.Tensor.__getitem__(x, index)
    part = _marked(aten.index.Tensor(x, indices), (x, _version(x)))
    return part[rest] if rest else part


def set_item(x: Any, index: Any, value: Any) -> None:
    """Do ``x[index] = value`` for a handle ``x``."""
    indices, rest = _split(x, index)
    if not indices:
        torch.Tensor.__setitem__(x, index, value)
        return
    part = aten.index.Tensor(x, indices)
    part[rest or ...] = value
    aten.index_put_(x, indices, part)


class NoLength(ValueAccessError, TypeError):
    """Raised by ``len()`` of a 0-d handle, and so by `torch.tensor` of a list of handles; a TypeError as in torch."""


def length(x: Any) -> int:
    """Return ``len(x)`` for a handle ``x``.

    `torch.tensor` calls it too: it treats handles as sequences, because `get_item` is a Python method.
    """
    if not x.dim():
        raise NoLength(
            f"len() of a 0-d tensor, and this one is {x._session.where}: torch.stack makes one tensor of several, "
            "and .publish() gives values"
        )
    return torch.Tensor.__len__(x)


leave_to_python(get_item)
leave_to_python(set_item)


_NUMBERS = frozenset((int, type(None)))


def _is_plain(index: Any) -> bool:
    """Return whether an index is an integer or a slice of integers, so that its parts need no check."""
    if type(index) is slice:
        return type(index.start) in _NUMBERS and type(index.stop) in _NUMBERS and type(index.step) in _NUMBERS
    return type(index) is int


def _split(x: torch.Tensor, index: Any) -> tuple[list[Any], tuple]:
    """Split an index into its 0-d handles, each at its dimension of ``x``, and the remaining entries."""
    parts = index if type(index) is tuple else (index,)
    if not any(_stands_for_its_value(part, x) for part in parts):
        return [], ()
    spans = [_span(part) for part in parts]
    indices: list[Any] = []
    rest: list[Any] = []
    dim = 0
    for part, span in zip(parts, spans, strict=True):
        if _stands_for_its_value(part, x):
            indices += [None] * (dim - len(indices)) + [part.long()]
        else:
            rest.append(part)
        dim += max(x.dim() - sum(spans), 0) if part is ... else span
    return indices, tuple(rest)


def _stands_for_its_value(part: Any, x: Any) -> bool:
    """Return whether an index entry is an integer on the server; refuse one that makes the shape depend on values."""
    if type(part) is slice:
        if isinstance(part.start, NoValues) or isinstance(part.stop, NoValues) or isinstance(part.step, NoValues):
            raise _dynamic("a slice up to or from a handle", x, alternative("slice"))
        return False
    on_the_server = isinstance(part, NoValues)
    if not on_the_server:
        return False
    if not part.dim() and part.dtype in _MASKS:
        raise _dynamic("a mask without dimensions", x, alternative("index"))
    return is_count(part)


def _dynamic(what: str, x: Any, way: str) -> ValueAccessError:
    return ValueAccessError(
        f"{what} gives a shape that depends on values, and this tensor of shape {tuple(x.shape)} is "
        f"{x._session.where}. Use {way}; or .publish() the index first",
        DYNAMIC,
    )


def _span(part: Any) -> int:
    """Return the number of dimensions that an index entry consumes."""
    if part is None or part is ... or isinstance(part, bool):
        return 0
    if isinstance(part, (list, tuple)):
        part = torch.as_tensor(part)
    return part.dim() if isinstance(part, torch.Tensor) and part.dtype in _MASKS else 1
