"""NumPy functions that torch has under no name of its own, and what to write for them.

A row is a name, the call in NumPy, the same in torch, and a sentence. The tests run both on the arrays of `EXAMPLE` and
compare the results; what draws random numbers is compared by its shape.
"""

from __future__ import annotations

from typing import NamedTuple


class Instead(NamedTuple):
    """One function of NumPy, and how torch code says the same."""

    name: str
    numpy: str
    torch: str
    say: str = ""


# What the calls are made on, as NumPy sees it; torch's side gets the same as tensors.
EXAMPLE = {
    "x": "np.array([[3.0, 1, 2, 7], [0, 5, 4, 6], [8, 11, 10, 9]])",
    "y": "np.array([[1.0, 2, 2, 4], [5, 3, 0, 1], [2, 2, 7, 6]])",
    "a": "np.array([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]])",
    "v": "np.array([1.5, -2, 3, 0.5, 4])",
    "w": "np.array([0.1, 0.2, 0.3, 0.2, 0.2])",
    "s": "np.array([0.0, 1, 2, 4, 7])",
    "gaps": "np.array([1.0, np.nan, 3, np.nan, 2])",
    "n": "np.array([7, -7, 3, -2, 0])",
    "k": "np.array([2, 2, -2, 3, 1])",
    "i": "np.array([2, 0, 2, 1])",
    "mask": "np.array([True, False, True, True, False])",
    "z": "np.array([1 + 2j, 3 - 1j, 0j])",
}

STATISTICS = (
    Instead("np.percentile", "np.percentile(x, 30)", "torch.quantile(x, 0.3)", "quantile takes a share from 0 to 1, and flattens without dim= as NumPy does."),
    Instead("np.nanpercentile", "np.nanpercentile(gaps, 30)", "torch.nanquantile(gaps, 0.3)", "nanquantile takes a share from 0 to 1."),
    Instead("np.ptp", "np.ptp(x, axis=1)", "torch.amax(x, 1) - torch.amin(x, 1)", "There is no range of values; subtract the extremes."),
    Instead("np.average", "np.average(v, weights=w)", "torch.sum(v * w) / torch.sum(w)", "torch.mean has no weights."),
    Instead("np.nanmax", "np.nanmax(gaps)", "torch.amax(torch.nan_to_num(gaps, nan=-torch.inf))", "amax gives nan where one is: put -inf in its place."),
    Instead("np.nanmin", "np.nanmin(gaps)", "torch.amin(torch.nan_to_num(gaps, nan=torch.inf))", "amin gives nan where one is: put inf in its place."),
    Instead("np.nanargmax", "np.nanargmax(gaps)", "torch.argmax(torch.nan_to_num(gaps, nan=-torch.inf))", "argmax takes nan for the largest: put -inf in its place."),
    Instead("np.nanargmin", "np.nanargmin(gaps)", "torch.argmin(torch.nan_to_num(gaps, nan=torch.inf))", "argmin takes nan for the smallest: put inf in its place."),
    Instead("np.nanprod", "np.nanprod(gaps)", "torch.prod(torch.nan_to_num(gaps, nan=1.0))", "Put 1 in the place of nan."),
    Instead("np.nancumsum", "np.nancumsum(gaps)", "torch.cumsum(torch.nan_to_num(gaps), 0)", "Put 0 in the place of nan; cumsum needs a dimension."),
    Instead("np.nancumprod", "np.nancumprod(gaps)", "torch.cumprod(torch.nan_to_num(gaps, nan=1.0), 0)", "Put 1 in the place of nan; cumprod needs a dimension."),
    Instead("np.nanvar", "np.nanvar(gaps)", "torch.var(gaps[~torch.isnan(gaps)], correction=0)", "Leave nan out with a mask; torch's var divides by N - 1 unless correction=0."),
    Instead("np.nanstd", "np.nanstd(gaps)", "torch.std(gaps[~torch.isnan(gaps)], correction=0)", "Leave nan out with a mask; torch's std divides by N - 1 unless correction=0."),
    Instead("np.histogram2d", "np.histogram2d(v, s, bins=2)[0]", "torch.histogramdd(torch.stack([v, s], -1), bins=[2, 2])[0]", "histogramdd takes the points as rows, and float32 or float64 alone."),
    Instead("np.histogram_bin_edges", "np.histogram_bin_edges(v, bins=4)", "torch.histogram(v, bins=4)[1]", "histogram gives the edges as its second result; it does not choose their number."),
)  # fmt: skip

SORTING = (
    Instead("np.lexsort", "np.lexsort((s[i], i))", "torch.argsort(s[i], stable=True)[torch.argsort(i[torch.argsort(s[i], stable=True)], stable=True)]", "Sort stably by each key in turn, the least important first."),
    Instead("np.argpartition", "np.sort(x.ravel()[np.argpartition(x.ravel(), 3)[:3]])", "torch.sort(torch.topk(x.ravel(), 3, largest=False)[0])[0]", "topk gives the k largest or smallest with their indices, in order."),
    Instead("np.flatnonzero", "np.flatnonzero(x > 4)", "torch.nonzero((x > 4).ravel()).ravel()", "nonzero gives rows of indices."),
    Instead("np.sort_complex", "np.sort_complex(z)", "(lambda t: t[torch.argsort(t.real, stable=True)])(z[torch.argsort(z.imag, stable=True)])", "torch does not order complex numbers: sort by the imaginary parts, then stably by the real ones."),
    Instead("np.select", "np.select([v < 0, v > 2], [-v, v * 10], 0.0)", "torch.where(v < 0, -v, torch.where(v > 2, v * 10, 0.0))", "Nest where, the first condition outermost."),
    Instead("np.convolve", "np.convolve(v, w)", "torch.conv1d(v[None, None], w.flip(0)[None, None], padding=4)[0, 0]", "conv1d does not flip the kernel: flip it. mode='full' is a padding of all but one of its elements, 'valid' is none."),
    Instead("np.piecewise", "np.piecewise(v, [v < 0, v >= 0], [lambda t: -t, lambda t: t * 2])", "torch.where(v < 0, -v, v * 2)", "where computes both branches everywhere."),
    Instead("np.choose", "np.choose(i, [s[:4], v[:4], w[:4]])", "torch.gather(torch.stack([s[:4], v[:4], w[:4]]), 0, i[None])[0]", "Stack the choices and gather."),
    Instead("np.compress", "np.compress(mask, v)", "v[mask]", "A bool mask as the index does it."),
    Instead("np.delete", "np.delete(v, [1, 3])", "v[~torch.isin(torch.arange(len(v)), torch.tensor([1, 3]))]", "Keep the others with a mask."),
    Instead("np.insert", "np.insert(v, 2, 9.0)", "torch.cat([v[:2], torch.tensor([9.0]), v[2:]])", "Join the pieces."),
    Instead("np.append", "np.append(v, s)", "torch.cat([v.ravel(), s.ravel()])", "np.append without an axis flattens both; cat does not."),
    Instead("np.trim_zeros", "np.trim_zeros(s)", "s[torch.nonzero(s)[0, 0] : torch.nonzero(s)[-1, 0] + 1]", "Slice from the first to the last that is not 0."),
    Instead("np.unique_values", "np.sort(np.unique_values(i))", "torch.unique(i)", "torch.unique sorts; np.unique_values need not."),
    Instead("np.unique_counts", "np.unique_counts(i)[1]", "torch.unique(i, return_counts=True)[1]", "Ask for return_counts."),
    Instead("np.unique_inverse", "np.unique_inverse(i)[1]", "torch.unique(i, return_inverse=True)[1]", "Ask for return_inverse."),
    Instead("np.unique_all", "np.unique_all(i)[3]", "torch.unique(i, return_inverse=True, return_counts=True)[2]", "torch.unique gives no indices of first occurrences."),
    Instead("np.intersect1d", "np.intersect1d(n, k)", "torch.unique(n[torch.isin(n, k)])", "isin, then unique."),
    Instead("np.setdiff1d", "np.setdiff1d(n, k)", "torch.unique(n[~torch.isin(n, k)])", "isin inverted, then unique."),
    Instead("np.setxor1d", "np.setxor1d(n, k)", "torch.unique(torch.cat([n[~torch.isin(n, k)], k[~torch.isin(k, n)]]))", "What is in one of them alone, from both sides."),
    Instead("np.union1d", "np.union1d(n, k)", "torch.unique(torch.cat([n, k]))", "Join, then unique."),
    Instead("np.ediff1d", "np.ediff1d(x)", "torch.diff(x.ravel())", "diff works along one dimension: flatten first."),
    Instead("np.take mode='wrap'", "np.take(v, [6, -7], mode='wrap')", "torch.take(v, torch.tensor([6, -7]) % v.numel())", "torch has no mode=: take the remainder of the indices."),
    Instead("np.take mode='clip'", "np.take(v, [6, -7], mode='clip')", "torch.take(v, torch.tensor([6, -7]).clamp(0, v.numel() - 1))", "torch has no mode=: clamp the indices. Negative ones are clipped to 0, too."),
    Instead("np.add.at", "(t := np.zeros(3), np.add.at(t, i, 1.0))[0]", "torch.zeros(3).index_add(0, i, torch.ones(4))", "index_add and scatter_add count every duplicate, as np.add.at does."),
    Instead("np.maximum.at", "(t := np.zeros(3), np.maximum.at(t, i, s[:4]))[0]", "torch.zeros(3).scatter_reduce(0, i, s[:4], 'amax')", "scatter_reduce counts every duplicate."),
    Instead("np.putmask", "(t := v.copy(), np.putmask(t, mask, -s))[0]", "torch.where(mask, -s, v)", "where with the condition first; np.putmask writes in place."),
    Instead("np.ix_", "x[np.ix_([0, 2], [1, 3])]", "x[torch.tensor([0, 2])[:, None], torch.tensor([1, 3])]", "Give each index a dimension of its own; they broadcast."),
    Instead("np.indices", "np.indices((2, 3))", "torch.stack(torch.meshgrid(torch.arange(2), torch.arange(3), indexing='ij'))", "meshgrid of ranges, stacked."),
    Instead("np.diag_indices", "a[np.diag_indices(3)]", "a[torch.arange(3), torch.arange(3)]", "One range for both; diagonal gives a view."),
    Instead("np.diag_indices_from", "a[np.diag_indices_from(a)]", "torch.diagonal(a)", "diagonal is a view that can be written to."),
    Instead("np.tril_indices_from", "a[np.tril_indices_from(a)]", "a[tuple(torch.tril_indices(3, 3))]", "torch gives one tensor with two rows; as a tuple it indexes."),
    Instead("np.triu_indices_from", "a[np.triu_indices_from(a)]", "a[tuple(torch.triu_indices(3, 3))]", "torch gives one tensor with two rows; as a tuple it indexes."),
    Instead("np.mask_indices", "a[np.mask_indices(3, np.triu)]", "a[torch.ones(3, 3).triu().bool()]", "Index with the mask itself."),
    Instead("np.ravel_multi_index", "np.ravel_multi_index((i, i), (3, 4))", "i * 4 + i", "Multiply by the strides and add."),
    Instead("np.unravel_index", "np.unravel_index(i, (3, 4))[0]", "torch.unravel_index(i, (3, 4))[0]", "torch.unravel_index does the same on tensors."),
)  # fmt: skip

SHAPES = (
    Instead("np.append axis", "np.append(x, y, axis=0)", "torch.cat([x, y], 0)", "cat."),
    Instead("np.block", "np.block([[a, a], [a, a]])", "torch.cat([torch.cat([a, a], 1), torch.cat([a, a], 1)], 0)", "Join the rows, then the blocks; block_diag is another thing."),
    Instead("np.rollaxis", "np.rollaxis(x, 1)", "torch.movedim(x, 1, 0)", "movedim, as np.moveaxis."),
    Instead("np.apply_along_axis", "np.apply_along_axis(lambda r: r.max() - r[0], 1, x)", "torch.vmap(lambda r: r.amax() - r[0])(x)", "vmap maps over the first dimension; the function must be made of torch calls."),
    Instead("np.apply_over_axes", "np.apply_over_axes(np.sum, x, [0, 1])", "torch.sum(x, (0, 1), keepdim=True)", "Reductions take several dimensions."),
    Instead("np.broadcast_shapes", "np.broadcast_shapes((3, 1), (1, 4))", "tuple(torch.broadcast_shapes((3, 1), (1, 4)))", "It gives a torch.Size, which is a tuple."),
    Instead("np.row_stack", "np.vstack([x, y])", "torch.vstack([x, y])", "An old name of vstack."),
    Instead("np.unstack", "np.unstack(x)[1]", "torch.unbind(x)[1]", "unbind; dim= in place of axis=."),
    Instead("np.pad mode='edge'", "np.pad(x, 1, mode='edge')", "torch.nn.functional.pad(x[None], (1, 1, 1, 1), mode='replicate')[0]", "edge is replicate. torch pads the last dimensions, listed last first, and wants a batch or channel dimension before them."),
    Instead("np.pad mode='wrap'", "np.pad(x, 1, mode='wrap')", "torch.nn.functional.pad(x[None], (1, 1, 1, 1), mode='circular')[0]", "wrap is circular, at most one length."),
    Instead("np.pad mode='symmetric'", "np.pad(v, 2, mode='symmetric')", "torch.cat([v[:2].flip(0), v, v[-2:].flip(0)])", "torch has no symmetric mode: join flipped ends. reflect, which leaves out the edge itself, is in both."),
    Instead("np.pad mode='linear_ramp'", "np.pad(v, (2, 0), mode='linear_ramp')", "torch.cat([torch.linspace(0, v[0].item(), 3)[:2], v])", "torch has no ramps: join a linspace."),
    Instead("np.r_", "np.r_[v, s]", "torch.cat([v, s])", "cat; ranges by arange."),
    Instead("np.c_", "np.c_[v, s]", "torch.stack([v, s], 1)", "stack as columns."),
    Instead("np.s_", "x[np.s_[:, 1]]", "x[(slice(None), 1)]", "np.s_ gives plain slices, which tensors take too; of a negative step they do not."),
    Instead("np.mgrid", "np.mgrid[0:2, 0:3]", "torch.stack(torch.meshgrid(torch.arange(2), torch.arange(3), indexing='ij'))", "meshgrid of ranges, stacked."),
    Instead("np.ogrid", "np.ogrid[0:2, 0:3][0]", "torch.arange(2)[:, None]", "Ranges with a dimension of 1; they broadcast."),
    Instead("np.newaxis", "v[np.newaxis]", "v[None]", "None is the same index in both."),
)  # fmt: skip

ARITHMETIC = (
    Instead("np.interp", "np.interp(2.5, s, v)", "(lambda t, j: v[j - 1] + (t - s[j - 1]) / (s[j] - s[j - 1]) * (v[j] - v[j - 1]))(torch.tensor(2.5), torch.searchsorted(s, torch.tensor(2.5)).clamp(1, len(s) - 1))", "torch has no interpolation at given points: find the interval with searchsorted. F.interpolate resizes regular grids."),
    Instead("np.divmod", "np.divmod(n, k)[1]", "(torch.floor_divide(n, k), torch.remainder(n, k))[1]", "Two calls: floor_divide and remainder, which round down in both."),
    Instead("np.modf", "np.modf(v)[0]", "(torch.frac(v), torch.trunc(v))[0]", "frac and trunc."),
    Instead("np.rint", "np.rint(v)", "torch.round(v)", "The same: both round halves to even."),
    Instead("np.spacing", "np.spacing(s)", "torch.nextafter(s, torch.full_like(s, torch.inf)) - s", "The distance to the next number, by nextafter."),
    Instead("np.unwrap", "np.unwrap(np.array([0.0, 3.0, -3.0]))", "(lambda p: p + torch.cat([torch.zeros(1), torch.cumsum(-2 * torch.pi * torch.round(torch.diff(p) / (2 * torch.pi)), 0)]))(torch.tensor([0.0, 3.0, -3.0]))", "Add multiples of 2 pi where the step is more than pi."),
    Instead("np.real_if_close", "np.real_if_close(z * 1j)", "z * 1j", "Take .real yourself; dtypes do not depend on values in torch."),
    Instead("np.bitwise_count", "np.bitwise_count(np.array([7, 8]))", "sum((torch.tensor([7, 8]) >> j) & 1 for j in range(8))", "Add up the bits."),
    Instead("np.packbits", "np.packbits(mask)", "(torch.nn.functional.pad(mask, (0, 3)).view(-1, 8) * 2 ** torch.arange(7, -1, -1)).sum(1).to(torch.uint8)", "Multiply with the powers of 2."),
    Instead("np.unpackbits", "np.unpackbits(np.array([6], np.uint8))", "((torch.tensor([6], dtype=torch.uint8)[:, None] >> torch.arange(7, -1, -1, dtype=torch.uint8)) & 1).ravel()", "Shift and mask."),
    Instead("np.iscomplex", "np.iscomplex(z)", "z.imag != 0", "torch.is_complex asks for the dtype, as np.iscomplexobj."),
    Instead("np.isrealobj", "np.isrealobj(v)", "not torch.is_complex(v)", "is_complex asks for the dtype."),
    Instead("np.array_equiv", "np.array_equiv(v, v[None])", "bool((v == v[None]).all())", "torch.equal does not broadcast."),
    Instead("np.geomspace", "np.geomspace(1, 1000, 4)", "torch.logspace(0, 3, 4)", "logspace takes the exponents."),
    Instead("np.tri", "np.tri(3)", "torch.tril(torch.ones(3, 3))", "tril of ones."),
    Instead("np.fromfunction", "np.fromfunction(lambda r, c: r * 2 + c, (2, 3))", "(lambda r, c: r * 2.0 + c)(*torch.meshgrid(torch.arange(2), torch.arange(3), indexing='ij'))", "Call the function with a meshgrid."),
    Instead("np.fromiter", "np.fromiter(range(3), int)", "torch.tensor(list(range(3)))", "Make a list first."),
    Instead("np.frombuffer", "np.frombuffer(b'ab', np.uint8)", "torch.frombuffer(bytearray(b'ab'), dtype=torch.uint8)", "torch warns of memory that is read-only."),
    Instead("np.from_dlpack", "np.from_dlpack(v)", "torch.from_dlpack(v)", "Both share memory."),
    Instead("np.vectorize", "np.vectorize(lambda t: t * 2)(v)", "torch.vmap(lambda t: t * 2)(v)", "vmap runs the function once on the whole batch; it must be made of torch calls."),
    Instead("np.frompyfunc", "np.frompyfunc(lambda t: t * 2, 1, 1)(v).astype(float)", "torch.vmap(lambda t: t * 2)(v)", "vmap runs the function once on the whole batch."),
    Instead("np.asfortranarray", "np.asfortranarray(x)", "x.t().contiguous().t()", "torch has no order=; transpose, copy and transpose back."),
    Instead("np.asanyarray", "np.asanyarray(v)", "torch.as_tensor(v)", "as_tensor copies only where it must."),
    Instead("np.asarray_chkfinite", "np.asarray_chkfinite(v)", "v if torch.isfinite(v).all() else None", "Ask isfinite yourself."),
    Instead("np.require", "np.require(x, requirements='C')", "x.contiguous()", "contiguous."),
    Instead("np.may_share_memory", "np.may_share_memory(v, v)", "v.untyped_storage().data_ptr() == v.untyped_storage().data_ptr()", "Compare the storages."),
    Instead("np.isfortran", "np.isfortran(x.T)", "x.T.T.is_contiguous() and not x.T.is_contiguous()", "Ask the transpose."),
)  # fmt: skip

POLYNOMIALS = (
    Instead("np.polyval", "np.polyval(w, v)", "(lambda p: [p := p * v + c for c in w][-1])(torch.zeros_like(v))", "Horner's rule in a loop."),
    Instead("np.polyfit", "np.polyfit(s, v, 1)", "torch.linalg.lstsq(torch.vander(s, 2), v[:, None]).solution[:, 0]", "Least squares on a vander matrix."),
    Instead("np.polyadd", "np.polyadd(v, v)", "v + v", "Add, padded to one length."),
    Instead("np.polysub", "np.polysub(v, w)", "v - w", "Subtract, padded to one length."),
    Instead("np.polymul", "np.polymul(v, w)", "torch.nn.functional.conv1d(v[None, None], w.flip(0)[None, None], padding=len(w) - 1)[0, 0]", "A product of polynomials is a convolution; conv1d does not flip, so flip first."),
    Instead("np.polyder", "np.polyder(v)", "v[:-1] * torch.arange(len(v) - 1, 0, -1)", "Multiply with the powers."),
    Instead("np.polyint", "np.polyint(v)", "torch.cat([v / torch.arange(len(v), 0, -1), torch.zeros(1)])", "Divide by the powers."),
    Instead("np.polydiv", "np.polydiv([1.0, -3, 2], [1.0, -1])[0]", "torch.linalg.solve(torch.tensor([[1.0, 0.0], [-1.0, 1.0]]), torch.tensor([1.0, -3.0]))", "The quotient solves a triangular system of the divisor's coefficients."),
    Instead("np.roots", "np.sort(np.roots([1.0, -3, 2]))", "torch.sort(torch.linalg.eigvals(torch.tensor([[3.0, -2.0], [1.0, 0.0]])).real)[0]", "Eigenvalues of the companion matrix."),
    Instead("np.poly", "np.poly([1.0, 2.0])", "torch.tensor([1.0, -(1.0 + 2.0), 1.0 * 2.0])", "Multiply the factors out, by convolutions."),
)  # fmt: skip

DTYPES = (
    Instead("np.issubdtype", "np.issubdtype(v.dtype, np.floating)", "v.dtype.is_floating_point", "torch dtypes have is_floating_point, is_complex and is_signed; there is no hierarchy."),
    Instead("np.isdtype", "np.isdtype(v.dtype, 'real floating')", "v.dtype.is_floating_point", "torch dtypes have is_floating_point, is_complex and is_signed."),
    Instead("np.common_type", "np.common_type(v, n).__name__", "str(torch.promote_types(v.dtype, n.dtype)).removeprefix('torch.')", "promote_types; it goes by category, then by width."),
    Instead("np.pi", "np.pi", "torch.pi", "A Python float, as np.e, np.inf and np.nan are torch.e, torch.inf and torch.nan."),
    Instead("np.e", "np.e", "torch.e"),
    Instead("np.inf", "np.inf", "torch.inf"),
    Instead("np.nan", "np.isnan(np.nan)", "torch.nan != torch.nan"),
    Instead("np.finfo", "float(np.finfo(np.float32).eps)", "torch.finfo(torch.float32).eps", "torch.finfo has eps, max, min, tiny and bits."),
    Instead("np.iinfo", "int(np.iinfo(np.int8).max)", "torch.iinfo(torch.int8).max", "torch.iinfo has max, min and bits."),
    Instead("np.dtype", "np.dtype('float32').itemsize", "torch.float32.itemsize", "torch's dtypes are objects of their own, not made from strings."),
    Instead("np.isscalar", "np.isscalar(3.0)", "isinstance(3.0, (int, float, complex))", "Python's isinstance; a 0-d tensor is a tensor."),
)  # fmt: skip

OTHERS = (
    Instead("np.ndarray.T", "x.T", "x.T", "Of a matrix. T of other than two dimensions is deprecated in torch: permute(*range(x.ndim - 1, -1, -1)) reverses them."),
    Instead("np.ndarray.mT", "x.mT", "x.mT", "The last two dimensions swapped."),
    Instead("np.ndarray.copy", "x.copy()", "x.clone()", "clone keeps the order of dimensions in memory, ndarray.copy writes them in C order."),
    Instead("np.ndarray.fill", "(t := v.copy(), t.fill(2))[0]", "v.clone().fill_(2)", "fill_ gives the tensor back."),
    Instead("np.ndarray.tolist", "v.tolist()", "v.tolist()", "The same name."),
    Instead("np.ndarray.tobytes", "v.tobytes()[0]", "v.contiguous().view(torch.uint8)[0]", "View as uint8; numpy().tobytes() gives bytes."),
    Instead("np.ndarray.flat", "[float(t) for t in x.flat][1]", "x.flatten()[1]", "Flatten and iterate."),
    Instead("np.ndarray.byteswap", "np.array([1], np.int16).byteswap()", "torch.tensor([1], dtype=torch.int16).view(torch.uint8).flip(0).view(torch.int16)", "torch knows the machine's byte order alone; view as bytes and flip."),
    Instead("np.ndarray.nbytes", "v.nbytes", "v.nbytes", "The same name."),
    Instead("np.ndarray.itemsize", "v.itemsize", "v.itemsize", "The same name; element_size() too."),
    Instead("np.ndarray.to_device", "v.to_device('cpu')", "v.to('cpu')", "to."),
    Instead("np.ndarray.getfield", "v.getfield(np.float64)", "v.view(torch.float64)", "view with a dtype; there are no structured dtypes."),
    Instead("np.ndarray.sort", "(t := v.copy(), t.sort())[0]", "torch.sort(v)[0]", "ndarray.sort writes in place; Tensor.sort gives values and indices."),
    Instead("np.linalg.matmul", "np.linalg.matmul(a, a)", "torch.linalg.matmul(a, a)", "The same name."),
    Instead("np.linalg.outer", "np.linalg.outer(v, s)", "torch.outer(v, s)", "outer takes vectors."),
    Instead("np.linalg.tensordot", "np.linalg.tensordot(x, y, axes=2)", "torch.tensordot(x, y, dims=2)", "dims= in place of axes=."),
    Instead("np.linalg.trace", "np.linalg.trace(a)", "torch.trace(a)", "torch.trace takes one matrix; of a batch sum the diagonal."),
)  # fmt: skip

RANDOM = (
    Instead("np.random.default_rng", "np.random.default_rng(0).random(3)", "torch.rand(3, generator=torch.Generator().manual_seed(0))", "A torch.Generator is passed as generator=. The numbers of one seed differ: torch draws from a Mersenne Twister, default_rng from PCG64."),
    Instead("np.random.Generator", "np.random.Generator(np.random.PCG64(0)).random(3)", "torch.rand(3, generator=torch.Generator().manual_seed(0))", "A torch.Generator has no methods that draw: it is passed as generator=."),
    Instead("np.random.RandomState", "np.random.RandomState(0).rand(3)", "torch.rand(3, generator=torch.Generator().manual_seed(0))", "Both are Mersenne Twisters, but make other numbers of its words."),
    Instead("np.random.seed", "(np.random.seed(0), np.random.rand(2))[1]", "(torch.manual_seed(0), torch.rand(2))[1]", "manual_seed gives the generator back. The numbers of one seed differ from NumPy's."),
    Instead("np.random.random", "np.random.random((2, 3))", "torch.rand(2, 3)", "rand, from 0 to below 1, in float32."),
    Instead("np.random.random_sample", "np.random.random_sample((2, 3))", "torch.rand(2, 3)", "rand, in float32."),
    Instead("np.random.ranf", "np.random.random((2, 3))", "torch.rand(2, 3)", "An old name of random."),
    Instead("np.random.sample", "np.random.random((2, 3))", "torch.rand(2, 3)", "An old name of random."),
    Instead("np.random.random_integers", "np.random.randint(1, 7, 3)", "torch.randint(1, 7, (3,))", "randint leaves out the upper bound in both."),
    Instead("np.random.standard_normal", "np.random.standard_normal((2, 3))", "torch.randn(2, 3)", "randn, in float32."),
    Instead("np.random.choice", "np.random.choice(5, 3)", "torch.randint(5, (3,))", "With p= it is torch.multinomial(p, 3, replacement=True), without replacement torch.randperm(5)[:3]."),
    Instead("np.random.standard_exponential", "np.random.standard_exponential(3)", "torch.empty(3).exponential_()", "exponential_ fills a tensor."),
    Instead("np.random.uniform", "np.random.uniform(1.0, 2.0, 4)", "torch.empty(4).uniform_(1.0, 2.0)", "uniform_ fills a tensor."),
    Instead("np.random.exponential", "np.random.exponential(2.0, 4)", "torch.empty(4).exponential_(0.5)", "exponential_ takes the rate, one over NumPy's scale."),
    Instead("np.random.geometric", "np.random.geometric(0.3, 4)", "torch.empty(4).geometric_(0.3)", "geometric_ fills a tensor."),
    Instead("np.random.lognormal", "np.random.lognormal(0.0, 1.0, 4)", "torch.empty(4).log_normal_(0.0, 1.0)", "Its defaults are mean 1 and deviation 2, NumPy's 0 and 1."),
    Instead("np.random.standard_cauchy", "np.random.standard_cauchy(4)", "torch.empty(4).cauchy_()", "cauchy_ fills a tensor."),
    Instead("np.random.standard_gamma", "np.random.standard_gamma(2.0, 4)", "torch.distributions.Gamma(2.0, 1.0).sample((4,))", "torch.distributions has it."),
    Instead("np.random.dirichlet", "np.random.dirichlet([1.0, 2.0])", "torch.distributions.Dirichlet(torch.tensor([1.0, 2.0])).sample()", "torch.distributions has it."),
    Instead("np.random.gamma", "np.random.gamma(2.0, 3.0, 4)", "torch.distributions.Gamma(2.0, 1 / 3.0).sample((4,))", "Gamma takes the rate, one over NumPy's scale."),
    Instead("np.random.beta", "np.random.beta(2.0, 3.0, 4)", "torch.distributions.Beta(2.0, 3.0).sample((4,))", "torch.distributions has it."),
    Instead("np.random.chisquare", "np.random.chisquare(3, 4)", "torch.distributions.Chi2(3.0).sample((4,))", "torch.distributions has it."),
    Instead("np.random.f", "np.random.f(3, 4, 5)", "torch.distributions.FisherSnedecor(3.0, 4.0).sample((5,))", "torch.distributions has it."),
    Instead("np.random.gumbel", "np.random.gumbel(0, 1, 4)", "torch.distributions.Gumbel(0.0, 1.0).sample((4,))", "torch.distributions has it."),
    Instead("np.random.laplace", "np.random.laplace(0, 1, 4)", "torch.distributions.Laplace(0.0, 1.0).sample((4,))", "torch.distributions has it."),
    Instead("np.random.logistic", "np.random.logistic(0, 1, 4)", "torch.logit(torch.rand(4))", "logit of uniform numbers."),
    Instead("np.random.multinomial", "np.random.multinomial(10, [0.2, 0.8])", "torch.distributions.Multinomial(10, torch.tensor([0.2, 0.8])).sample()", "torch.multinomial draws indices, as np.random.choice with p= does."),
    Instead("np.random.multivariate_normal", "np.random.multivariate_normal([0, 0], np.eye(2), 3)", "torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)).sample((3,))", "torch.distributions has it."),
    Instead("np.random.negative_binomial", "np.random.negative_binomial(3, 0.4, 5)", "torch.distributions.NegativeBinomial(3.0, 1 - torch.tensor(0.4)).sample((5,))", "torch counts successes: pass 1 - p."),
    Instead("np.random.pareto", "np.random.pareto(3.0, 4)", "torch.distributions.Pareto(1.0, 3.0).sample((4,)) - 1", "NumPy's is the Lomax distribution, which begins at 0."),
    Instead("np.random.power", "np.random.power(3.0, 4)", "torch.rand(4) ** (1 / 3.0)", "A power of uniform numbers."),
    Instead("np.random.rayleigh", "np.random.rayleigh(2.0, 4)", "2.0 * torch.sqrt(-2 * torch.log1p(-torch.rand(4)))", "From uniform numbers."),
    Instead("np.random.shuffle", "(t := v.copy(), np.random.shuffle(t))[0]", "v[torch.randperm(len(v))]", "randperm gives an order; np.random.shuffle works in place."),
    Instead("np.random.standard_t", "np.random.standard_t(3, 4)", "torch.distributions.StudentT(3.0).sample((4,))", "torch.distributions has it."),
    Instead("np.random.triangular", "np.random.triangular(0, 0.5, 1, 4)", "(torch.rand(4) + torch.rand(4)) / 2", "For a mode in the middle; else by the inverse of its distribution."),
    Instead("np.random.vonmises", "np.random.vonmises(0, 2, 4)", "torch.distributions.VonMises(0.0, 2.0).sample((4,))", "torch.distributions has it."),
    Instead("np.random.weibull", "np.random.weibull(2.0, 4)", "torch.distributions.Weibull(1.0, 2.0).sample((4,))", "torch.distributions has it; its scale comes first."),
    Instead("np.random.noncentral_chisquare", "np.random.noncentral_chisquare(1, 4.0, 3)", "(torch.randn(3) + 2.0) ** 2", "A sum of squared normal numbers with that mean; of one degree of freedom here."),
    Instead("np.random.noncentral_f", "np.random.noncentral_f(1, 5, 4.0, 3)", "(torch.randn(3) + 2.0) ** 2 / torch.distributions.Chi2(5.0).sample((3,)) * 5.0", "A quotient of a noncentral and a central chi-square."),
    Instead("np.random.hypergeometric", "np.random.hypergeometric(5, 2, 3, 4)", "(torch.rand(4, 7).argsort(1)[:, :3] < 5).sum(1)", "Draw without replacement, and count."),
    Instead("np.random.logseries", "np.random.logseries(0.5, 4)", "torch.floor(1 + torch.log(torch.rand(4)) / torch.log1p(-(0.5 ** torch.rand(4))))", "From two uniform numbers."),
    Instead("np.random.wald", "np.random.wald(1.0, 1.0, 4)", "(lambda y, u: (lambda t: torch.where(u <= 1 / (1 + t), t, 1 / t))(1 + y / 2 - torch.sqrt(4 * y + y * y) / 2))(torch.randn(4) ** 2, torch.rand(4))", "From a normal and a uniform number, for mean and scale 1."),
    Instead("np.random.zipf", "np.random.zipf(2.0, 4)", "torch.multinomial(torch.arange(1.0, 1000) ** -2.0, 4, replacement=True) + 1", "multinomial over a range that is long enough."),
    Instead("np.random.bytes", "len(np.random.bytes(4))", "len(bytes(torch.randint(256, (4,)).tolist()))", "Random integers below 256."),
    Instead("np.random.get_state", "np.random.RandomState(0).get_state()[0] != ''", "torch.get_rng_state().dtype == torch.uint8", "get_rng_state gives a tensor of bytes."),
    Instead("np.random.set_state", "(np.random.set_state(t := np.random.get_state()), 1)[1]", "(torch.set_rng_state(torch.get_rng_state()), 1)[1]", "set_rng_state."),
)  # fmt: skip

ROWS = (*STATISTICS, *SORTING, *SHAPES, *ARITHMETIC, *POLYNOMIALS, *DTYPES, *OTHERS, *RANDOM)
