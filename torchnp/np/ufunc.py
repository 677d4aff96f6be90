"""`TensorUfunc`: a ufunc of NumPy on tensors, with its dtypes, keywords and methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchnp._private_numpy import NO_VALUE
from torchnp.np.dtypes import (
    HALVES,
    as_tensor,
    carried,
    carried_ordered,
    cast,
    is_weak,
    kind,
    loop_dtypes,
    number,
    operand_key,
    result_dtype,
    torch_dtype,
    uncarried,
    uncarried_ordered,
)
from torchnp.np.table import in_numpy

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


class TensorUfunc:
    """A ufunc on tensors: NumPy chooses the dtypes of the loop, and a function of torch computes in them.

    Parameters
    ----------
    name : str
        NumPy's name, ``"add"``.
    function : callable
        Takes tensors of the loop's dtypes and returns a tensor or a tuple of them.
    ordered : bool
        Whether the function depends on the order of its operands' values (see `carried_ordered`).
    unsigned : callable, optional
        The function for uint64; it takes int64 tensors with the same bits. By default ``function`` takes these.
    mixed : callable, optional
        The function for comparisons of int64 with uint64. It takes two int64 tensors, and whether the first is uint64.
    halves : bool
        Whether the function takes half types, which are otherwise computed in float32.
    reduce, accumulate : callable, optional
        ``f(x, axes, keepdim)`` and ``f(x, axis)`` in the loop's dtype. By default, the function is applied along the
        axis element by element.
    """

    def __init__(
        self,
        name: str,
        function: Callable,
        ordered: bool = False,
        unsigned: Callable | None = None,
        mixed: Callable | None = None,
        halves: bool = False,
        reduce: Callable | None = None,
        accumulate: Callable | None = None,
    ) -> None:
        self.numpy = in_numpy(name)
        self.__name__ = self.__qualname__ = name
        self.__doc__ = f"`numpy.{name}` on tensors."
        self.nin, self.nout, self.nargs = self.numpy.nin, self.numpy.nout, self.numpy.nargs
        self.identity, self.signature, self.types = self.numpy.identity, self.numpy.signature, self.numpy.types
        self.ntypes = self.numpy.ntypes
        self._function, self._ordered = function, ordered
        self._unsigned, self._mixed, self._halves = unsigned, mixed, halves
        self._reduce, self._accumulate = reduce, accumulate

    def __repr__(self) -> str:
        return f"<tensor ufunc '{self.__name__}'>"

    # ------------------------------------------------------------ the call

    def __call__(
        self,
        *operands: Any,
        out: Any = None,
        where: Any = True,
        casting: str = "same_kind",
        order: str = "K",
        dtype: Any = None,
        subok: bool = True,
        signature: Any = None,
    ) -> Any:
        """Compute elementwise; see `numpy.ufunc` for the keywords.

        Raises
        ------
        TypeError
            NumPy's own, if it has no loop for the dtypes or ``out=`` cannot take the result.
        OverflowError
            If a Python integer is out of range of the loop's dtype.
        """
        outs, operands = self._outs(operands, out)
        if len(operands) != self.nin:
            raise TypeError(f"{self.__name__}() takes from {self.nin} to {self.nargs} positional arguments but "
                            f"{len(operands)} were given")  # fmt: skip
        values = _operands(operands)
        if (settled := self._out_of_range(operands, values)) is not None:
            return settled
        dtypes = self.resolve(values, outs, dtype if signature is None else _result_of(signature, self), casting)
        _check_shapes(values, outs)
        like = next((v for v in (*values, *outs) if isinstance(v, Tensor)), None)
        inner = [_in_loop(v, d, like) for v, d in zip(values, dtypes, strict=False)]
        if outs:
            inner = [saved(x) for x in inner]
        results = self.compute(inner, dtypes)
        finished = tuple(
            _finish(r, d, o, where)
            for r, d, o in zip(results, dtypes[self.nin :], outs or (None,) * self.nout, strict=True)
        )
        return finished[0] if self.nout == 1 else finished

    def resolve(
        self, values: list[Any], outs: tuple[Any, ...] = (), dtype: Any = None, casting: str = "same_kind"
    ) -> tuple[torch.dtype, ...]:
        """Return the dtypes of a call's inputs and outputs."""
        given = tuple(None if o is None else o.dtype for o in outs) or (None,) * self.nout
        wanted = None if dtype is None else torch_dtype(dtype)
        return loop_dtypes(self.__name__, tuple(map(operand_key, values)), given, wanted, casting)

    def compute(self, inner: list[Tensor], dtypes: tuple[torch.dtype, ...]) -> tuple[Tensor, ...]:
        """Apply the function to tensors of the loop's dtypes; half types are computed in float32, as NumPy does."""
        if not self._halves and any(d in HALVES for d in dtypes):
            inner = [x.float() if x.dtype in HALVES else x for x in inner]
        carry, back = (carried_ordered, uncarried_ordered) if self._ordered else (carried, uncarried)
        wide = [x.dtype == torch.uint64 for x in inner]
        if self._mixed is not None and any(wide) and not all(wide):
            found = self._mixed(*map(carried, inner), wide[0])
        elif self._unsigned is not None and any(wide):
            found, back = self._unsigned(*map(carried, inner)), uncarried
        else:
            found = self._function(*map(carry, inner))
        results = found if isinstance(found, tuple) else (found,)
        return tuple(back(r, d).to(d) for r, d in zip(results, dtypes[self.nin :], strict=True))

    def _outs(self, operands: tuple[Any, ...], out: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the output tensors (``out=``, or trailing positional arguments) and the operands."""
        if len(operands) > self.nin and len(operands) <= self.nargs:
            more = (*operands[self.nin :], *(None,) * (self.nargs - len(operands)))
            return _checked(more), operands[: self.nin]
        if out is None or out is Ellipsis:
            return (), operands
        outs = out if isinstance(out, tuple) else (out,)
        if len(outs) != self.nout:
            raise ValueError(f"The 'out' tuple must have exactly {self.nout} entries: one per ufunc output")
        return _checked(outs), operands

    def _out_of_range(self, operands: Any, values: list[Any]) -> Tensor | None:
        """Return the result of comparing integers with a Python integer that their dtype cannot hold."""
        if self.__name__ not in COMPARISONS or not any(type(v) is int for v in values):
            return None
        place = next(i for i, v in enumerate(values) if type(v) is int)
        other = values[1 - place]
        if not isinstance(other, Tensor) or kind(other.dtype) not in "iu":
            return None
        bounds = torch.iinfo(other.dtype)
        if bounds.min <= values[place] <= bounds.max:
            return None
        sign = 1 if values[place] > bounds.max else -1
        pair = [torch.zeros_like(other, dtype=torch.int8), torch.full_like(other, sign, dtype=torch.int8)]
        return self._function(*(pair if place else pair[::-1]))

    # ------------------------------------------------------------ methods

    def reduce(
        self,
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Tensor:
        """`numpy.ufunc.reduce`: ``axis`` is an integer, a tuple (if empty, nothing is reduced), or None for all."""
        from torchnp.np.reducing import reduce_ufunc

        return reduce_ufunc(self, array, axis, dtype, out, keepdims, initial, where)

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Tensor:
        """`numpy.ufunc.accumulate`."""
        from torchnp.np.reducing import accumulate_ufunc

        return accumulate_ufunc(self, array, axis, dtype, out)

    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Tensor:
        """`numpy.ufunc.reduceat`: reduce the slices that start at ``indices``, a sequence or a tensor of integers."""
        from torchnp.np.reducing import reduceat_ufunc

        return reduceat_ufunc(self, array, indices, axis, dtype, out)

    def outer(self, a: Any, b: Any, /, **kwargs: Any) -> Any:
        """`numpy.ufunc.outer`."""
        a, b = as_tensor(a), as_tensor(b)
        return self(a.reshape((*a.shape, *(1,) * b.dim())), b, **kwargs)

    def at(self, array: Tensor, indices: Any, b: Any = None, /) -> None:
        """`numpy.ufunc.at`: update ``array[indices]`` in place, once for each time that an index occurs."""
        from torchnp.np.reducing import update_at

        update_at(self, array, indices, b)

    def resolve_dtypes(self, *args: Any, **kwargs: Any) -> Any:
        """`numpy.ufunc.resolve_dtypes`, of NumPy's dtypes."""
        return self.numpy.resolve_dtypes(*args, **kwargs)


def _checked(outs: tuple[Any, ...]) -> tuple[Any, ...]:
    for o in outs:
        if o is not None and not isinstance(o, Tensor):
            raise TypeError("return arrays must be of ArrayType")
    return outs if any(o is not None for o in outs) else ()


def _result_of(signature: Any, ufunc: TensorUfunc) -> Any:
    """Return the result dtype in a ``signature=``, which is a dtype, a tuple of dtypes, or a string like ``ff->f``."""
    if isinstance(signature, str) and "->" in signature:
        return np.dtype(signature[-1])
    return signature[-1] if isinstance(signature, tuple) else signature


def _check_shapes(values: list[Any], outs: tuple[Any, ...]) -> None:
    shapes = [tuple(v.shape) if isinstance(v, Tensor) else () for v in values]
    targets = [tuple(o.shape) for o in outs if o is not None]
    try:
        torch.broadcast_shapes(*shapes)
        known = all(1 in t or 0 not in t for t in targets)
    except RuntimeError:
        known = False
    if not known and not all(_fits(s, t) for s in shapes for t in targets or [()]):
        words = " ".join(str(s).replace(" ", "") for s in (*shapes, *targets))
        raise ValueError(f"operands could not be broadcast together with shapes {words} ")


def _operands(operands: tuple[Any, ...]) -> list[Any]:
    """Convert operands to tensors. Python numbers stay numbers, unless all operands are numbers."""
    like = next((x for x in operands if isinstance(x, Tensor)), None)
    return [x if is_weak(x) or isinstance(x, Tensor) else as_tensor(x, like=like) for x in operands]


def _in_loop(value: Any, dtype: torch.dtype, like: Tensor | None) -> Tensor:
    return cast(value, dtype) if isinstance(value, Tensor) else number(value, dtype, like)


def saved(x: Tensor) -> Tensor:
    """Return an operand of a call with ``out=`` that autograd may save: a copy, as the operand may be written."""
    return x.clone() if x.requires_grad and torch.is_grad_enabled() else x


def _finish(result: Tensor, dtype: torch.dtype, out: Tensor | None, where: Any) -> Tensor:
    """Write a result to ``out`` where ``where`` is true; without ``out``, the other elements of the result are zero."""
    chosen = None if where is True or where is NO_VALUE else as_tensor(where, like=result)
    if chosen is not None and chosen.dtype != torch.bool:
        raise TypeError(
            f"Cannot cast array data from dtype('{result_dtype(chosen.dtype)}') to dtype('bool') according to the rule 'safe'"
        )
    if out is None:
        return (
            result
            if chosen is None
            else torch.where(chosen, result, torch.zeros((), dtype=dtype, device=result.device))
        )
    write(out, result, chosen)
    return out


def write(out: Tensor, result: Tensor, chosen: Tensor | None = None) -> Tensor:
    """Write a result to ``out=`` as NumPy does: the result is broadcast and cast, and ``out`` is never resized."""
    shape = result.shape if chosen is None else torch.broadcast_shapes(result.shape, chosen.shape)
    if not _fits(shape, out.shape):
        given, needed = (str(tuple(n)).replace(" ", "") for n in (out.shape, shape))
        raise ValueError(
            f"non-broadcastable output operand with shape {given} doesn't match the broadcast shape {needed}"
        )
    value = cast(result, out.dtype)
    value = value if chosen is None else torch.where(chosen, value, out)
    target = _last_elements(out)
    if value.requires_grad:  # torch believes that a view is a leaf if another view of its base was written before
        target = target[...]
    target.copy_(_last_elements(value.expand(out.shape), out))
    return out


def _fits(shape: Any, target: Any) -> bool:
    return len(shape) <= len(target) and all(
        n in (1, m) for n, m in zip(reversed(shape), reversed(target), strict=False)
    )


def _last_elements(x: Tensor, like: Tensor | None = None) -> Tensor:
    """Keep only the last element along dimensions of stride 0: all share memory, and the last is written last."""
    for dim, (size, step) in enumerate(zip(x.shape, (x if like is None else like).stride(), strict=True)):
        x = x.narrow(dim, size - 1, 1) if step == 0 and size > 1 else x
    return x
