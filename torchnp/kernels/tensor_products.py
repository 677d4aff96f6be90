"""Products of tensors of any shape, built on matrix products."""

from __future__ import annotations

import itertools
import math

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, check_type, dim_of, refuse, warn, wrap_dim, wrap_dims
from torchnp.core.errors import ambiguous_view, batch2_mismatch, cannot_cast, output_shape, shape_text, size_mismatch
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels.arithmetic import add, mul
from torchnp.kernels.lu import check_inexact, check_same
from torchnp.kernels.matmul import addmm, batched, check_batched, dot, mm, mv, vdot
from torchnp.kernels.numerics.products import check_products, product, words
from torchnp.kernels.reduce import sum_all, sum_dim
from torchnp.kernels.view import matrix_transposed, view
from torchnp.layout.overlap import check_apart, check_target
from torchnp.layout.stride_rules import cloned, dense, iterated, layout_of, place

ndarray = np.ndarray

# ---------------------------------------------------------------- matmul


_DIFFERS = ["no-mixed-products", "no-bool-product"]


def _precheck_matmul(bound: Bound, outs: list[ndarray]) -> None:
    """Check the ``out=`` tensor: its dtype for `dot` and `addmv`, and in most cases that it does not overlap itself.

    torch does not check overlap where BLAS writes the result: for vectors and a single batch of matrices.
    """
    x, y = bound["self"], bound["other"]
    dims = (x.ndim, y.ndim)
    if y.ndim == 1 and x.ndim and outs[0].dtype != x.dtype:  # dot and addmv have their own messages
        out, own = dt.scalar_name(outs[0].dtype), dt.scalar_name(x.dtype)
        check(x.ndim > 1, f"result dtype {out} does not match input dtype {own}")
        base = x.dtype == y.dtype and x.shape[-1] == y.size and (x.ndim > 2 or outs[0].shape == x.shape[:1])
        check(not base, _addmv_of(outs[0], x))
    if x.ndim == 1 and y.ndim > 2 and outs[0].dtype != x.dtype == y.dtype and x.size == y.shape[-2] and _folds(y.mT):
        raise RuntimeError(_addmv_of(outs[0], x))
    if dims not in ((1, 1), (1, 2), (2, 1), (3, 3), (1, 3)) and outs[0].ndim == max(dims) - (1 in dims):
        check_target(outs[0])


def _addmv_of(out: ndarray, x: ndarray) -> str:
    target, own = dt.scalar_name(out.dtype), dt.scalar_name(x.dtype)
    return f"addmv input tensors must have the same dtype, but got {target}, {own}, and {own}"


def _no_vector(name: str, a: int, b: int) -> RuntimeError:
    return RuntimeError(f"both arguments to {name} need to be at least 1D, but they are {a}D and {b}D")


@kernel("matmul", "linalg_matmul", like=np.matmul, differs=_DIFFERS, writes=WriteSpec(out=_precheck_matmul))
def matmul(self, other):
    """Product of vectors, matrices or batches of matrices, which broadcast."""
    a, b = self.ndim, other.ndim
    if a == 0 or b == 0:
        raise _no_vector("matmul", a, b)
    if a == b == 1:
        return dot(self, other)
    if a == b == 2:
        return mm(self, other)
    if b <= 2:  # rows (one or many) times a matrix or vector
        rows = self.reshape(math.prod(self.shape[:-1]), self.shape[-1])
        if a > 2 and not _folds(self):
            _check_unfolded(self, other)
        out = mm(rows, other) if b == 2 else mv(rows, other)
        return out.reshape(*self.shape[:-1], *other.shape[1:])
    if a == 1 and _folds(other.mT):
        kept = (*other.shape[:-2], other.shape[-1])
        return mv(other.mT.reshape(math.prod(kept), other.shape[-2]), self).reshape(kept)
    return _batched(self, other)


def _folds(x: ndarray) -> bool:
    """Return whether a batch of matrices can be viewed as one matrix; if so, torch multiplies that one matrix."""
    if not x.size:
        return True
    looks_at = [d for d in range(x.ndim - 1) if x.shape[d] != 1 or not since("2.14")]
    return all(x.strides[d] == x.strides[e] * x.shape[e] for d, e in itertools.pairwise(looks_at))


def _check_unfolded(a: ndarray, b: ndarray) -> None:
    """Raise the errors of `bmm`, which torch uses if a batch cannot be viewed as one matrix."""
    if a.shape[-1] != b.shape[0]:
        n = math.prod(a.shape[:-2])
        raise batch2_mismatch(n, a.shape[-1], (n, b.shape[0]))
    if b.size:
        check_batched(a, b if b.ndim == 2 else b[:, None])


def _batched(a: ndarray, b: ndarray) -> ndarray:
    left = a[None] if a.ndim == 1 else a
    try:
        batch = broadcast_shapes(left.shape[:-2], b.shape[:-2])
    except RuntimeError:
        raise _batch_mismatch(left.shape[:-2], b.shape[:-2]) from None
    if left.shape[-1] != b.shape[-2]:
        n = math.prod(batch)
        raise batch2_mismatch(n, left.shape[-1], (n, b.shape[-2]))
    out = batched(left, b)
    return out[..., 0, :] if a.ndim == 1 else out


def _batch_mismatch(a: tuple[int, ...], b: tuple[int, ...]) -> RuntimeError:
    n = max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
    at = max(i for i in range(n) if a[i] != b[i] and 1 not in (a[i], b[i]))
    return size_mismatch(a[at], b[at], at)


def _precheck_biased(bound: Bound, outs: list[ndarray]) -> None:
    """Check that the bias fits ``out=``: torch adds the bias to it, or for a matrix input first copies it there."""
    (out,), x, weight, bias = outs, bound["input"], bound["weight"], bound["bias"]
    if bias is not None and x.ndim not in (0, 2) and weight.ndim == 2 and x.shape[-1] == weight.shape[1]:
        shape = (*x.shape[:-1], weight.shape[0])
        together = broadcast_shapes(shape, bias.shape)
        check(together == shape, output_shape(shape, together))
    if bias is not None and bias.shape == weight.shape[:1] and out.shape == (*x.shape[:-1], *bias.shape):
        check_apart(out, np.broadcast_to(bias, out.shape) if x.ndim == 2 else bias)


@kernel("linear", differs=[*_DIFFERS, "half-opmath"], writes=WriteSpec(out=_precheck_biased))
def linear(input, weight, bias=None):
    """input @ weight.T + bias."""
    if input.ndim == 0 or weight.ndim == 0:
        raise _no_vector("linear", input.ndim, weight.ndim)
    weight = matrix_transposed(weight)
    if bias is None:
        return matmul(input, weight)
    fused = input.flags.c_contiguous and bias.flags.c_contiguous and (bias.ndim == 1 or bias.squeeze().ndim == 1)
    if fused or input.ndim == 2:
        out = addmm(bias, input.reshape(math.prod(input.shape[:-1]), input.shape[-1]), weight)
        return out.reshape(*input.shape[:-1], out.shape[-1])
    out = matmul(input, weight)
    total = add(out, bias)  # torch adds the bias in place
    check(total.shape == out.shape, output_shape(out.shape, total.shape))
    check(dt.can_cast(total.dtype, out.dtype), cannot_cast(total.dtype, out.dtype))
    return dt.cast(total, out.dtype)


# ---------------------------------------------------------------- sums over chosen dimensions


def _precheck_inner(bound: Bound, outs: list[ndarray]) -> None:
    """Refuse an ``out=`` of another dtype if no operand is 0-d, because torch then computes `inner` with tensordot."""
    x, d = bound["self"], outs[0].dtype
    if x.ndim and bound["other"].ndim and x.dtype == bound["other"].dtype and x.dtype != d:
        found = f"but got an output tensor with dtype {dt.scalar_name(d)}"
        raise RuntimeError(f"tensordot: Expected the output tensor to have dtype {dt.scalar_name(x.dtype)}, {found}")


@kernel("inner", like=np.inner, differs=[*_DIFFERS, "missing-kernel"], writes=WriteSpec(out=_precheck_inner))
def inner(self, other):
    """Sums of products over the last dimensions."""
    if self.ndim == 0 or other.ndim == 0:
        return place(mul(self, other), iterated((layout_of(self), layout_of(other))))
    shapes = f"{shape_text(self.shape)} and {shape_text(other.shape)}"
    same = self.shape[-1] == other.shape[-1]
    check(same, f"inner() the last dimension must match on both input tensors but got shapes {shapes}")
    return dense(tensordot(self, other, [-1], [-1]))


@kernel("tensordot", like=np.tensordot, differs=[*_DIFFERS, "tensordot-broadcasts"])
def tensordot(self, other, dims_self, dims_other):
    """Sums of products over pairs of dimensions; a dimension of size 1 is summed with one of any size."""
    check(len(dims_self) == len(dims_other), "both dimension lists should have same length")
    check(self.dtype == other.dtype, "both inputs should have same dtype")
    a, b = self, other
    for i, j in zip(dims_self, dims_other, strict=True):
        dim_of(self, i), dim_of(other, j)
        if other.shape[j] == 1:
            a = sum_dim(a, i, True, dtype=a.dtype)
        elif self.shape[i] == 1:
            b = sum_dim(b, j, True, dtype=b.dtype)
        elif self.shape[i] != other.shape[j]:
            sizes = f"first has size {self.shape[i]} in dim {i} and second has size {other.shape[j]} in dim {j}"
            raise RuntimeError(f"contracted dimensions need to match, but {sizes}")
    if a.ndim == 0 or b.ndim == 0:
        return inner(a, b)
    left, right = wrap_dims(dims_self, a.ndim), wrap_dims(dims_other, b.ndim)
    rows = [i for i in range(a.ndim) if i not in left]
    columns = [j for j in range(b.ndim) if j not in right]
    shape = [*(a.shape[i] for i in rows), *(b.shape[j] for j in columns)]
    depth = math.prod(a.shape[i] for i in left)
    a, b = a.transpose(*rows, *left), b.transpose(*right, *columns)
    a2 = a.reshape(math.prod(a.shape[: len(rows)]), depth)
    b2 = b.reshape(depth, math.prod(b.shape[len(right) :]))
    if not len(a2) == 1 == b2.shape[1]:
        out = mm(a2, b2)
    elif a.flags.c_contiguous and b.flags.c_contiguous:
        out = dot(a2[0], b2[:, 0])
    else:  # torch multiplies and sums tensors that are not dense, even bools
        out = sum_all(mul(a2[0], b2[:, 0]), dtype=a.dtype)
    return out.reshape(shape)


@kernel("kron", like=np.kron, differs=["kron-of-strided"])
def kron(self, other):
    """For each element of the first tensor, a block: the second tensor times that element."""
    n = max(self.ndim, other.ndim)
    sizes = [(1,) * (n - x.ndim) + x.shape for x in (self, other)]
    left = view(self, [k for size in sizes[0] for k in (size, 1)])
    right = view(other, [k for size in sizes[1] for k in (1, size)])
    laid = place(mul(left, right), iterated((layout_of(left), layout_of(right))))
    return view(laid, [i * j for i, j in zip(*sizes, strict=True)])


@kernel("bilinear", differs=["no-mixed-products", "half-opmath"])
def bilinear(input1, input2, weight, bias=None):
    """input1 @ weight[k] @ input2 for each k, plus bias."""
    given = {"input1": input1, "input2": input2, "weight": weight} | ({} if bias is None else {"bias": bias})
    found = ", ".join(f"{name}: {words(x.dtype)}" for name, x in given.items())
    same = all(x.dtype == weight.dtype for x in given.values())
    check(same, f"All tensors must have the same dtype, got {found}")
    check(input1.ndim == input2.ndim, f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}")
    for i, (m, n) in enumerate(zip(input1.shape[:-1], input2.shape[:-1], strict=True)):
        check(m == n, f"bilinear(): input batch dimensions do not match at dim {i}: got {m} and {n}")
    sizes = [("input1", input1, -1, 1), ("input2", input2, -1, 2), ("bias", bias, 0, 0)]
    for name, x, at, of_weight in sizes if bias is not None else sizes[:2]:
        expected, found = weight.shape[dim_of(weight, of_weight)], x.shape[dim_of(x, at)]
        words_ = f"bilinear(): {name} size does not match weight size: got {found} but expected {expected}"
        check(found == expected, words_)
    check(weight.ndim == 3, "number of dimensions must match")
    batch = input1.shape[:-1]
    for x in (input1, input2):
        check(x.shape[-1], ambiguous_view((-1, 0)))
    x1, x2 = (x.reshape(math.prod(batch), x.shape[-1]) for x in (input1, input2))
    if x1.size and weight.size:
        check_products("bmm", weight.dtype)
    inner_ = dt.opmath(weight.dtype)
    left = product(x1, weight)  # one row of products for each output, rounded to a half type as in torch
    out = np.multiply(dt.cast(left, inner_), dt.cast(x2, inner_)).sum(-1, dtype=inner_).T
    out = dt.cast(np.ascontiguousarray(out), weight.dtype).reshape(*batch, weight.shape[0])
    return out if bias is None else add(out, bias)


# ---------------------------------------------------------------- chains


def _precheck_chain(bound: Bound, outs: list[ndarray]) -> None:
    """Cast a single matrix to the dtype of ``out=``: torch copies it there, whatever the dtypes."""
    if len(bound["matrices"]) == 1:
        bound["matrices"] = [dt.cast(bound["matrices"][0], outs[0].dtype)]


@kernel(
    "chain_matmul",
    like=np.linalg.multi_dot,
    differs=["no-mixed-products", "chain-of-one"],
    writes=WriteSpec(out=_precheck_chain),
)
def chain_matmul(matrices):
    """Product of a list of matrices."""
    for m in matrices:
        check(m.ndim == 2, f"Tensor dimension is {m.ndim}, expected 2 instead.")
    check(len(matrices) > 0, "chain_matmul(): Expected one or more matrices")
    warn(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot "
        "instead, which accepts a list of two or more tensors rather than multiple parameters."
    )
    return cloned(matrices[0]) if len(matrices) == 1 else dense(linalg_multi_dot(matrices))


@kernel("linalg_multi_dot", like=np.linalg.multi_dot, differs=["no-mixed-products"])
def linalg_multi_dot(tensors):
    """Product of a list of matrices in the cheapest order; the first and last may be vectors."""
    n = len(tensors)
    check(n >= 2, f"multi_dot(): expected at least 2 tensors but got {n}")
    for word, t in (("first", tensors[0]), ("last", tensors[-1])):
        check(t.ndim in (1, 2), f"multi_dot(): the {word} tensor must be 1D or 2D but got {t.ndim}D")
    first, last = tensors[0].ndim == 1, tensors[-1].ndim == 1
    chain = list(tensors)
    chain[0] = chain[0][None] if first else chain[0]
    chain[-1] = chain[-1][:, None] if last else chain[-1]
    for i, t in enumerate(chain):
        check(t.ndim == 2, f"multi_dot(): tensor {i} must be 2D but got {t.ndim}D")
    for i, t in enumerate(chain[1:]):
        pair = f"tensor 0 is {words(chain[0].dtype)} and tensor {i + 1} {words(t.dtype)}"
        check(t.dtype == chain[0].dtype, f"multi_dot(): all tensors must have be the same dtype but {pair}")
        shapes = f"{shape_text(tensors[i].shape)} and {shape_text(tensors[i + 1].shape)}"
        fits = chain[i].shape[1] == chain[i + 1].shape[0]
        check(fits, f"multi_dot(): tensors {i} and {i + 1} with shapes {shapes} cannot be multiplied")
    out = _multiplied(chain, _cheapest(chain), 0, n - 1)
    return out.reshape([size for size, gone in zip(out.shape, (first, last), strict=True) if not gone])


def _cheapest(chain: list[ndarray]) -> dict[tuple[int, int], int]:
    """Return where to split each part of the chain so that there are as few multiplications as possible."""
    sizes = [chain[0].shape[0], *(t.shape[1] for t in chain)]
    cost: dict[tuple[int, int], int] = {(i, i): 0 for i in range(len(chain))}
    split = {}
    for span in range(1, len(chain)):
        for i in range(len(chain) - span):
            j = i + span
            options = [cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)]
            cost[i, j] = min(options)
            ties = [k for k, option in enumerate(options, i) if option == cost[i, j]]
            split[i, j] = ties[-1 if len(chain) == 3 else 0]  # torch has a separate comparison for three matrices
    return split


def _multiplied(chain: list[ndarray], split: dict[tuple[int, int], int], i: int, j: int) -> ndarray:
    if i == j:
        return chain[i]
    k = split[i, j]
    return mm(_multiplied(chain, split, i, k), _multiplied(chain, split, k + 1, j))


# ---------------------------------------------------------------- vectors along a dimension


_VECDOT = ["no-integers-linalg", "no-mixed-products", "half-opmath", "zero-dim-axis", "vecdot-broadcasts"]


@kernel("linalg_vecdot", like=np.linalg.vecdot, differs=_VECDOT)
def linalg_vecdot(x, y, *, dim=-1):
    """Sums of products along a dimension; the first factor is conjugated."""
    check_inexact("linalg.vecdot", x)
    check_same(x, y, ("x", "y"), "linalg.vecdot: ")
    if x.ndim == y.ndim == 1:  # torch ignores ``dim`` here
        return vdot(x, y)
    # torch multiplies, then sums: half types are rounded in between.
    return sum_dim(mul(x.conj() if dt.is_complex(x.dtype) else x, y), [dim])


@kernel("linalg_cross", like=np.linalg.cross, differs=["cross-broadcast"])
def linalg_cross(self, other, *, dim=-1):
    """Cross products of vectors of 3 elements along a dimension."""
    check(self.ndim == other.ndim, "linalg.cross: inputs must have the same number of dimensions.")
    axis = wrap_dim(dim, self.ndim)
    if self.ndim == 0 or not self.shape[axis] == other.shape[axis] == 3:
        found = (x.shape[axis] if x.ndim else 1 for x in (self, other))
        words_ = f"Got {next(found)} and {next(found)}"
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. {words_}")
    broadcast_shapes(self.shape, other.shape)
    check_products("cross", self.dtype)
    check_type(self.dtype, other)
    a, b = (np.moveaxis(x, axis, 0) for x in (self, other))
    # Half types are rounded after each step, as in torch.
    return np.stack([a[j] * b[k] - a[k] * b[j] for j, k in ((1, 2), (2, 0), (0, 1))], axis)


@kernel("cross", like=np.cross, differs=["cross-default-dim", "cross-broadcast"])
def cross(self, other, dim=None):
    """Cross products along a dimension, by default the first of size 3."""
    if dim is None:
        warn(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly or "
            "simply use torch.linalg.cross.\nThe default value of dim will change to agree with that of linalg.cross in "
            "a future release."
        )
        dim = next((i for i, n in enumerate(self.shape) if n == 3), None)
        check(dim is not None, "no dimension of size 3 in input")
    return linalg_cross(self, other, dim=dim)


@kernel("trace", like=np.trace, differs=["sum-dtype", "matrix-only", "missing-kernel"])
def trace(self):
    """Sum of the diagonal of a matrix."""
    check_products("trace", self.dtype)
    if not since("2.13"):
        refuse("trace", self.dtype, dt.HALVES)
    check(self.ndim == 2, f"trace: expected a matrix, but got tensor with dim {self.ndim}")
    return sum_all(np.diagonal(self))
