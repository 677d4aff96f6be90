"""torchnp's own decompositions, into a few operators without views and writes, for engines without memory.

torch's decompositions assume views. These decompositions make views with a few copying operators: ``view_copy``,
``permute_copy``, ``slice_copy``, ``expand_copy``, and ``index_select`` for all other views. Each decomposition takes
the engine and the operator's arguments, and may return NotImplemented.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from torchnp.engine.tensor.overload_info import OverloadInfo, overload
from torchnp.engine.tensor.storage_ops import extent
from torchnp.interop._private import schema_of
from torchnp.rpc.exceptions import HandleError

aten = torch.ops.aten
Own = Callable[..., Any]

# Operators whose results depend on an argument's metadata, not on its values.
FACTORIES = frozenset((
    "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like", "zero",
    "new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided", "uniform", "normal_functional",
    "aten::bernoulli.p", "exponential", "geometric", "cauchy", "log_normal", "random",
))  # fmt: skip
# View operators whose copying forms torch would compute with views.
_VIEWS = ("view", "_reshape_alias", "squeeze", "unsqueeze", "t", "transpose", "permute", "select", "slice", "diagonal",
          "split", "split_with_sizes", "unbind", "expand", "as_strided", "unfold", "alias", "detach", "view_as_real",
          "view_as_complex")  # fmt: skip
PRIMITIVE = frozenset(f"{name}_copy" for name in _VIEWS) | {"expand_copy"}

_OWN: dict[str, Own] = {}


def own(plan: OverloadInfo) -> Own | None:
    """Return torchnp's decomposition of an overload, or None if it has none."""
    found = _OWN.get(plan.name.removeprefix("aten::"))
    if found is not None:
        return functools.partial(found, plan) if found is _prim_view else found
    if plan.name.startswith("prims::"):
        return _prim(plan)
    if plan.base.startswith("_foreach_"):
        return functools.partial(_each, plan)
    if plan.name.endswith(".Scalar") and overload(plan.name.replace(".Scalar", ".Tensor")) is not None:
        return functools.partial(_by_tensor, plan)
    return None


def rule(*names: str) -> Callable[[Own], Own]:
    """Register a function as the decomposition of overloads of aten, by name, or of prims, by full name."""

    def add(function: Own) -> Own:
        for name in names:
            _OWN[name] = function
        return function

    return add


# ---------------------------------------------------------------- the same values in another shape


def reshaped(x: Any, shape: Any) -> Any:
    """Return the elements of a handle in another shape."""
    return aten.view_copy.default(x, list(shape))


@rule("_reshape_alias_copy", "reshape")
def _view(engine: Any, x: Any, size: Any, *_: Any) -> Any:
    return reshaped(x, x._spec.fresh().reshape(size).shape)


@rule("unsqueeze_copy")
def _unsqueeze(engine: Any, x: Any, dim: int) -> Any:
    return reshaped(x, x._spec.fresh().unsqueeze(dim).shape)


@rule("squeeze_copy", "squeeze_copy.dim", "squeeze_copy.dims")
def _squeeze(engine: Any, x: Any, *dim: Any) -> Any:
    return reshaped(x, x._spec.fresh().squeeze(*dim).shape)


@rule("alias_copy", "detach_copy", "clone", "lift_fresh_copy")
def _clone(engine: Any, x: Any, **_: Any) -> Any:
    """Return another reference to the payload, if the engine never writes into payloads."""
    return NotImplemented if engine.inplace else engine.kind._wrap(x._spec, engine.reference(x._object.read()))


@rule("copy")
def _copy(engine: Any, x: Any, source: Any, non_blocking: bool = False) -> Any:
    if not engine.is_handle(source):
        source = engine.known(source)
    if source.dtype != x.dtype:
        source = aten._to_copy.default(source, dtype=x.dtype)
    return source if source.shape == x.shape else aten.expand_copy.default(source, x.shape)


@rule("_to_copy")
def _to_copy(engine: Any, x: Any, *, dtype: Any = None, **_: Any) -> Any:
    return aten.clone.default(x) if dtype in (None, x.dtype) else NotImplemented


# ---------------------------------------------------------------- other places


@rule("t_copy")
def _t(engine: Any, x: Any) -> Any:
    return aten.permute_copy.default(x, list(range(x.dim()))[::-1])


@rule("transpose_copy.int")
def _transpose(engine: Any, x: Any, dim0: int, dim1: int) -> Any:
    dims = list(range(x.dim()))
    if dims:
        dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
    return aten.permute_copy.default(x, dims)


@rule("select_copy.int")
def _select(engine: Any, x: Any, dim: int, index: int) -> Any:
    start = index % x.shape[dim]
    return reshaped(aten.slice_copy.Tensor(x, dim, start, start + 1), x._spec.fresh().select(dim, index).shape)


@rule("unbind_copy.int")
def _unbind(engine: Any, x: Any, dim: int = 0) -> list[Any]:
    return [aten.select_copy.int(x, dim, i) for i in range(x.shape[dim])]


@rule("split_copy.Tensor", "split_with_sizes_copy")
def _split(engine: Any, x: Any, size: Any, dim: int = 0) -> list[Any]:
    sizes = [part.shape[dim] for part in x._spec.fresh().split(size, dim)]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [aten.slice_copy.Tensor(x, dim, start, start + n) for start, n in zip(starts, sizes, strict=True)]


@rule("narrow_copy")
def _narrow(engine: Any, x: Any, dim: int, start: int, length: int) -> Any:
    start = start % x.shape[dim] if start < 0 else start
    return aten.slice_copy.Tensor(x, dim, start, start + length)


def _positions(x: Any, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Return the flat index in ``x``, in C order, of each element of a view or of each view in a list."""
    places = torch.empty_like(x._spec.fresh(), device="cpu", dtype=torch.int64)
    places.copy_(torch.arange(x.numel()).reshape(x.shape))
    return func(places, *args, **kwargs)


def _taken(x: Any, places: torch.Tensor) -> Any:
    """Return the elements of ``x`` at flat indices in C order."""
    flat = x if x.dim() == 1 else reshaped(x, [x.numel()])
    if torch.equal(places.flatten(), torch.arange(x.numel())):
        return reshaped(flat, places.shape)
    return reshaped(aten.index_select.default(flat, 0, places.flatten()), places.shape)


def _by_positions(view: Any) -> Own:
    def take(engine: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return _taken(x, _positions(x, view, args, kwargs))

    return take


for _view_name, _copy_name in {
    "permute": "permute_copy",
    "slice.Tensor": "slice_copy.Tensor",
    "diagonal": "diagonal_copy",
    "expand": "expand_copy",
    "unfold": "unfold_copy",
}.items():
    _OWN[_copy_name] = _by_positions(overload(f"aten::{_view_name}"))


@rule("as_strided_copy")
def _as_strided(engine: Any, x: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    if x.storage_offset() or extent(x) != x.numel():  # a conjugate, or a tensor that was sent as a part of a larger one
        raise HandleError("as_strided of a view: there is no memory that both are in; take it of the view's clone()")
    return _taken(x, _positions(x, aten.as_strided.default, (size, stride, storage_offset), {}))


_OWN["flip"], _OWN["roll"] = _by_positions(aten.flip.default), _by_positions(aten.roll.default)


def scatter(plan: OverloadInfo, i: int, base: Any, value: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Return ``base`` with ``value`` written at the elements of its ``i``-th view."""
    if plan.base == "view_as_real":
        return aten.view_as_complex_copy.default(value)
    if plan.base == "view_as_complex":
        return aten.view_as_real_copy.default(value)
    if value.dtype != base.dtype:
        raise HandleError(
            f"{plan.name}: a write into this view, whose dtype is not its base's, cannot be made: write into its clone()",
            "a view of another dtype is not written",
        )
    places = _positions(base, plan.func, args, kwargs)
    places = (places[i] if isinstance(places, (list, tuple)) else places).flatten()
    if not len(places):
        return base
    source = torch.zeros(base.numel(), dtype=torch.int64)
    source[places] = torch.arange(len(places))
    written = torch.zeros(base.numel(), dtype=torch.bool)
    written[places] = True
    if int(written.sum()) != len(places):
        raise HandleError(
            f"{plan.name}: a write into this view, in which elements share memory, cannot be made: write into its clone()",
            "a view with shared elements is not written",
        )
    if len(places) == base.numel():
        return reshaped(_taken(value, source), base.shape)
    written, source = written.reshape(base.shape), source.reshape(base.shape)
    return aten.where.self(written, _taken(value, source), base)


# ---------------------------------------------------------------- arithmetic


def _by_tensor(plan: OverloadInfo, engine: Any, *args: Any, **kwargs: Any) -> Any:
    """Compute ``x + 2`` of an overload for numbers with the overload for tensors.

    For some operators, torch accepts numbers in the overload for tensors; for others, the number is passed as a tensor.
    """
    func = overload(plan.name.replace(".Scalar", ".Tensor"))
    x, number, *rest = args
    if not isinstance(x, torch.Tensor) or isinstance(number, torch.Tensor):
        return NotImplemented
    if not _takes_numbers(func):
        number = torch.tensor(number, dtype=torch.result_type(x._spec.fresh(), number))  # type: ignore[attr-defined]
    return func(x, number, *rest, **kwargs)


@functools.cache
def _takes_numbers(func: Any) -> bool:
    try:
        func(torch.empty((), device="meta"), 1)
    except RuntimeError:
        return False
    return True


@rule("fill.Scalar", "fill.Tensor")
def _fill(engine: Any, x: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return aten.copy.default(x, value)
    return engine.known(torch.full(x.shape, value, dtype=x.dtype))


@rule("sub.Tensor")
def _sub(engine: Any, x: Any, other: Any, *, alpha: Any = 1) -> Any:
    if alpha == 1 and isinstance(other, torch.Tensor):
        return aten.add.Tensor(x, aten.neg.default(other))
    return aten.add.Tensor(x, aten.mul.Tensor(other, -alpha) if isinstance(other, torch.Tensor) else -alpha * other)


@rule("ne.Tensor")
def _ne(engine: Any, x: Any, other: Any) -> Any:
    return aten.logical_not.default(aten.eq.Tensor(x, other))


def _swapped(name: str) -> Own:
    """Compute a comparison as the reverse comparison of the swapped operands, if the engine has that."""
    func = overload(f"aten::{name}.Tensor")
    return lambda engine, x, other: func(other, x) if f"aten::{name}.Tensor" in engine.index else NotImplemented


for _name, _other in {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.items():
    _OWN[f"{_name}.Tensor"] = _swapped(_other)


def _of_bools(name: str) -> Own:
    """Compute a bitwise operator on booleans with the logical operator."""
    func = overload(f"aten::{name}")
    return lambda engine, *args: func(*args) if all(a.dtype == torch.bool for a in args) else NotImplemented


_BITWISE = {"bitwise_not": "logical_not"} | {f"bitwise_{n}.Tensor": f"logical_{n}" for n in ("and", "or", "xor")}
for _name, _other in _BITWISE.items():
    _OWN[_name] = _of_bools(_other)


def _bounded(engine: Any, x: Any, bound: Any, larger: bool) -> Any:
    """Return the larger or the smaller of ``x`` and a plain bound, and NaN where either is NaN."""
    if not isinstance(bound, torch.Tensor):
        bound = torch.tensor(bound, dtype=torch.result_type(x._spec.fresh(), bound))
    name = "maximum" if larger else "minimum"
    if f"aten::{name}" in engine.index:
        return overload(f"aten::{name}")(x, bound)
    over = aten.lt.Tensor(x, bound) if larger else aten.gt.Tensor(x, bound)
    found = aten.where.self(over, engine.known(bound), x)
    unordered = bound.isnan()
    return aten.where.self(unordered, engine.known(bound), found) if unordered.any() else found


@rule("clamp", "clamp.Tensor")
def _clamp(engine: Any, x: Any, min: Any = None, max: Any = None) -> Any:
    if any(engine.is_handle(bound) for bound in (min, max)):
        return NotImplemented  # where a bound is NaN, so is the result
    x = x if min is None else _bounded(engine, x, min, True)
    return x if max is None else _bounded(engine, x, max, False)


@rule("clamp_min")
def _clamp_min(engine: Any, x: Any, min: Any) -> Any:
    return _bounded(engine, x, min, True)


@rule("clamp_max")
def _clamp_max(engine: Any, x: Any, max: Any) -> Any:
    return _bounded(engine, x, max, False)


@rule("rsub.Tensor", "rsub.Scalar")
def _rsub(engine: Any, x: Any, other: Any, alpha: Any = 1) -> Any:
    return aten.add.Tensor(aten.mul.Tensor(x, -alpha), other)


@rule("neg")
def _neg(engine: Any, x: Any) -> Any:
    return aten.mul.Tensor(x, -1) if x.is_floating_point() or x.is_complex() else NotImplemented


@rule("reciprocal")
def _reciprocal(engine: Any, x: Any) -> Any:
    return aten.div.Tensor(aten.ones_like.default(x), x) if x.is_floating_point() else NotImplemented


@rule("rsqrt")
def _rsqrt(engine: Any, x: Any) -> Any:
    return aten.reciprocal.default(aten.sqrt.default(x)) if x.is_floating_point() else NotImplemented


@rule("pow.Tensor_Scalar")
def _power(engine: Any, x: Any, exponent: Any) -> Any:
    if exponent == 2:
        return aten.mul.Tensor(x, x)
    if exponent == 1:
        return aten.clone.default(x)
    if exponent == 0.5 and x.is_floating_point():
        return aten.sqrt.default(x)
    return NotImplemented


@rule("sum")
def _sum(engine: Any, x: Any, *, dtype: Any = None) -> Any:
    return aten.sum.dim_IntList(x, list(range(x.dim())), False, dtype=dtype)


@rule("mean", "mean.dim")
def _mean(engine: Any, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    dims = list(range(x.dim())) if not dim else [d % max(x.dim(), 1) for d in dim]
    total = aten.sum.dim_IntList(x, dims, keepdim, dtype=dtype)
    return aten.div.Tensor(total, math.prod(x.shape[d] for d in dims) if x.dim() else 1)


@rule("var.correction")
def _var(engine: Any, x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return aten.var_mean.correction(x, dim, correction=correction, keepdim=keepdim)[0]


@rule("var_mean.correction")
def _var_mean(engine: Any, x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    if x.is_complex():
        return NotImplemented
    dims = dim or list(range(x.dim()))
    mean = aten.mean.dim(x, dims, True)
    n = math.prod(x.shape[d] for d in dims) if x.dim() else 1
    apart = aten.sub.Tensor(x, mean)
    total = aten.sum.dim_IntList(aten.mul.Tensor(apart, apart), dims, keepdim)
    over = max(n - (1 if correction is None else correction), 0)
    return aten.div.Tensor(total, over), mean if keepdim else reshaped(mean, total.shape)


@rule("relu")
def _relu(engine: Any, x: Any) -> Any:
    return NotImplemented if "aten::clamp_min" not in engine.index else aten.clamp_min.default(x, 0)


@rule("scatter.value")
def _scatter_value(engine: Any, x: Any, dim: int, index: Any, value: Any) -> Any:
    if "aten::scatter.src" in engine.index:
        return aten.scatter.src(x, dim, index, torch.full(index.shape, value, dtype=x.dtype))
    hits = aten.scatter_add.default(torch.zeros(x.shape), dim, index, torch.ones(index.shape))
    filled = engine.known(torch.tensor(value, dtype=x.dtype))
    return aten.where.self(aten.gt.Scalar(hits, 0), filled, x)


@rule("embedding")
def _embedding(engine: Any, weight: Any, indices: Any, *_: Any) -> Any:
    flat = indices.reshape(-1)
    rows = aten.index_select.default(weight, 0, flat)
    return reshaped(rows, [*indices.shape, *weight.shape[1:]])


def _each(plan: OverloadInfo, engine: Any, *args: Any, **kwargs: Any) -> Any:
    """Compute a ``_foreach_`` operator, item by item."""
    name = plan.name.replace("_foreach_", "").replace(".List", ".Tensor").replace(".ScalarList", ".Scalar")
    single = overload(name) or overload(name.partition(".")[0])
    if single is None or not isinstance(args[0], (list, tuple)):
        return NotImplemented
    at = lambda a, i: a[i] if isinstance(a, (list, tuple)) else a
    each = range(len(args[0]))
    return [single(*(at(a, i) for a in args), **{k: at(a, i) for k, a in kwargs.items()}) for i in each]


# ---------------------------------------------------------------- prims, which torch's reference implementations use


def _prim(plan: OverloadInfo) -> Own | None:
    """Return a decomposition of a prim into the aten operator with the same meaning."""
    if any(str(a.type) != "Tensor" for a in schema_of(plan.func).arguments):  # not elementwise
        return None
    for name in (f"aten::{plan.base}.Tensor", f"aten::{plan.base}"):
        func = overload(name)
        if func is not None:
            return lambda engine, *args, **kwargs: func(*args, **kwargs)
    return None


@rule("prims::convert_element_type")
def _convert(engine: Any, x: Any, dtype: Any) -> Any:
    return aten._to_copy.default(x, dtype=dtype)


@rule("prims::broadcast_in_dim")
def _broadcast(engine: Any, x: Any, shape: Any, dims: Any) -> Any:
    sizes = [1] * len(shape)
    for d, n in zip(dims, x.shape, strict=True):
        sizes[d] = n
    return aten.expand_copy.default(reshaped(x, sizes), list(shape))


@rule("prims::view_of", "prims::device_put")
def _same(engine: Any, x: Any, *_: Any) -> Any:
    return aten.clone.default(x)


@rule("prims::transpose")
def _permuted(engine: Any, x: Any, dims: Any) -> Any:
    return aten.permute_copy.default(x, list(dims))


@rule("prims::squeeze", "prims::split_dim", "prims::collapse_view", "prims::collapse", "prims::reshape")
def _prim_view(plan: OverloadInfo, engine: Any, x: Any, *args: Any) -> Any:
    return reshaped(x, plan.func(x._spec.fresh(), *args).shape)


@rule("prims::where")
def _where(engine: Any, condition: Any, x: Any, other: Any) -> Any:
    return aten.where.self(condition, x, other)


@rule("prims::amax")
def _prim_amax(engine: Any, x: Any, dims: Any, **_: Any) -> Any:
    return aten.amax.default(x, list(dims))


@rule("prims::amin")
def _prim_amin(engine: Any, x: Any, dims: Any, **_: Any) -> Any:
    return aten.amin.default(x, list(dims))


@rule("prims::sum")
def _prim_sum(engine: Any, x: Any, dims: Any, *, output_dtype: Any = None) -> Any:
    return aten.sum.dim_IntList(x, list(dims), False, dtype=output_dtype)
