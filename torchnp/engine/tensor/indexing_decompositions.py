"""torchnp's decompositions of indexing and scattering operators into ``index_select``, ``where`` and ``scatter_add``.

Also those of a few operators that torch's GradScaler uses.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from torchnp.engine.tensor.decompositions import reshaped, rule, scatter
from torchnp.engine.tensor.overload_info import overload, plan_of

aten = torch.ops.aten


def _scattered(view: str) -> Any:
    """Return the decomposition of a ``_scatter`` form: a tensor with other values at the elements of a view."""
    plan = plan_of(overload(f"aten::{view}"))
    return lambda engine, x, source, *args: scatter(plan, 0, x, source, args, {})


def _backward(view: str) -> Any:
    """Return the decomposition of a view's gradient, which is zero except at the view's elements."""
    plan = plan_of(overload(f"aten::{view}"))

    def gradient(engine: Any, grad: Any, sizes: Any, *args: Any) -> Any:
        return scatter(plan, 0, engine.known(torch.zeros(sizes, dtype=grad.dtype)), grad, args, {})

    return gradient


for _base, _view in {"slice": "slice.Tensor", "select": "select.int", "diagonal": "diagonal"}.items():
    rule(f"{_base}_scatter")(_scattered(_view))
    rule(f"{_base}_backward")(_backward(_view))


def _flat_index(indices: Any, sizes: Any) -> Any:
    """Combine indices along several dimensions into one along their flattened dimension, as `np.ravel_multi_index` does.

    Negative indices count from the end.
    """
    total: Any = None
    for index, n in zip(indices, sizes, strict=True):
        from_start = torch.where(index < 0, index + n, index)
        total = from_start if total is None else total * n + from_start
    return total


def _indexed_first(x: Any, indices: Any) -> tuple[Any, list[int], list[int], Any]:
    """Return ``x`` as a matrix, the indexed dimensions, the other dimensions, and the index of the matrix's rows.

    The rows of the matrix are the indexed dimensions, flattened.
    """
    dims = [d for d, index in enumerate(indices) if index is not None]
    rest = [d for d in range(x.dim()) if d not in dims]
    rows = math.prod(x.shape[d] for d in dims)
    turned = x if dims + rest == list(range(x.dim())) else aten.permute_copy.default(x, dims + rest)
    matrix = reshaped(turned, [rows, math.prod(x.shape[d] for d in rest)])
    given = [indices[d].long() for d in dims]
    return matrix, dims, rest, _flat_index(torch.broadcast_tensors(*given), [x.shape[d] for d in dims])


@rule("index.Tensor")
def _index(engine: Any, x: Any, indices: Any) -> Any:
    if any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices):
        return NotImplemented
    matrix, dims, rest, at = _indexed_first(x, indices)
    found = aten.index_select.default(matrix, 0, reshaped_index(at, [at.numel()]))
    found = reshaped(found, [*at.shape, *(x.shape[d] for d in rest)])
    if dims != list(range(dims[0], dims[-1] + 1)) or dims[0] == 0:
        return found
    order = list(range(at.dim(), at.dim() + dims[0])) + list(range(at.dim()))
    return aten.permute_copy.default(found, order + list(range(len(order), found.dim())))


def reshaped_index(index: Any, shape: Any) -> Any:
    """Return an index, which may be plain or a handle, in another shape."""
    return index.reshape(shape) if type(index) is torch.Tensor else reshaped(index, shape)


@rule("index_add")
def _index_add(engine: Any, x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    if not x.dim():
        return NotImplemented
    shape = [1] * x.dim()
    shape[dim] = index.numel()
    places = reshaped_index(index, shape).expand(source.shape)
    return aten.scatter_add.default(x, dim, places.contiguous().long(), source if alpha == 1 else source * alpha)


@rule("index_put")
def _index_put(engine: Any, x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Accumulate, as gradients do, with ``scatter_add``, and otherwise write with ``scatter.src``.

    One number is written with ``where`` at the elements that a mask chooses.
    """
    chosen = [d for d, index in enumerate(indices) if index is not None]
    if len(chosen) == 1 and indices[chosen[0]].dtype == torch.bool and values.numel() == 1 and not accumulate:
        mask, before = indices[chosen[0]], chosen[0]
        shape = [1] * before + [*mask.shape] + [1] * (x.dim() - before - mask.dim())
        return torch.where(reshaped_index(mask, shape), values.reshape(()), x)
    if any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices):
        return NotImplemented
    matrix, dims, rest, at = _indexed_first(x, indices)
    others = [x.shape[d] for d in rest]
    if dims[0] and dims == list(range(dims[0], dims[-1] + 1)):  # the values have the other dimensions first
        shape = [x.shape[d] for d in rest if d < dims[0]] + [*at.shape] + [x.shape[d] for d in rest if d > dims[0]]
        first = list(range(dims[0], dims[0] + at.dim()))
        values = values.expand(shape).permute(first + [d for d in range(len(shape)) if d not in first])
    values = values.expand([*at.shape, *others]).reshape(at.numel(), matrix.shape[1])
    places = reshaped_index(at, [at.numel(), 1]).expand(values.shape).contiguous()
    put = aten.scatter_add.default if accumulate else aten.scatter.src
    found = reshaped(put(matrix, 0, places, values), [*(x.shape[d] for d in dims), *others])
    order = dims + rest
    return (
        found if order == sorted(order) else aten.permute_copy.default(found, [order.index(d) for d in range(x.dim())])
    )


@rule("embedding_dense_backward")
def _embedding_gradient(
    engine: Any, grad: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    if padding_idx >= 0 or scale_grad_by_freq:
        return NotImplemented
    zeros = engine.known(torch.zeros(num_weights, grad.shape[-1], dtype=grad.dtype))
    return aten.index_put.default(zeros, [indices], grad, True)


@rule("_is_any_true")
def _is_any_true(engine: Any, x: Any) -> Any:
    return aten.ne.Scalar(aten.sum.default(x), 0)


@rule("_amp_foreach_non_finite_check_and_unscale")
def _unscaled(engine: Any, grads: Any, found_inf: Any, inv_scale: Any) -> Any:
    for g in grads:
        finite = aten.eq.Tensor(aten.mul.Tensor(g, 0), g.new_zeros(()))
        wrong = aten.sum.default(aten.logical_not.default(finite))
        found_inf = torch.where(aten.gt.Scalar(wrong, 0), torch.ones(()), found_inf)
    return [aten.mul.Tensor(g, inv_scale) for g in grads], found_inf


@rule("_amp_update_scale")
def _amp_scale(engine: Any, scale: Any, tracker: Any, found_inf: Any, growth: float, backoff: float, steps: int) -> Any:
    skipped, after = aten.gt.Scalar(found_inf, 0), aten.add.Tensor(tracker, 1)
    grown = aten.eq.Scalar(after, steps)
    larger = torch.where(grown, aten.mul.Tensor(scale, growth), scale)
    zero = torch.zeros((), dtype=tracker.dtype)
    counted = torch.where(skipped, zero, torch.where(grown, zero, after))
    return torch.where(skipped, aten.mul.Tensor(scale, backoff), larger), counted
