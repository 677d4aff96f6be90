"""How one would write a torch call in NumPy: templates for each NumPy function.

A template is an expression in which ``f`` is the NumPy function and the other names are arguments of torch's schema. A
template fits a call if it contains all arguments whose values are not the default. If several fit, `natural_call.build`
takes the one that contains the most given arguments. A keyword whose argument is not given is dropped. The expression
around the call of ``f``, as in ``f(self, bins)[0]`` or ``wrote(f(self, index), self)``, is applied to its result. Lists
of numbers are passed as tuples. A function without templates is called with the schema's required arguments in order.

Defaults are not adapted: ``var`` without a correction is ``np.var(self)``, because such differences are what the proof
examines.
"""

from __future__ import annotations

# Arguments that NumPy code does not mention, such as memory formats or the random generator.
UNSAID = frozenset(
    {"layout", "device", "pin_memory", "memory_format", "non_blocking", "generator", "requires_grad", "sparse_grad",
     "scale_grad_by_freq", "sparse", "padding_idx", "implicit", "unsafe", "path", "output_size", "driver", "masked_grad",
     "assume_unique"}
)  # fmt: skip

REDUCE = ("f(self, axis=dim, keepdims=keepdim, dtype=dtype)", "f(inp, axis=dims, dtype=output_dtype)")
EXTREME = ("f(self, axis=dim, keepdims=keepdim)", "f(inp, axis=dims)")
SPREAD = (
    "f(self, axis=dim, ddof=correction, keepdims=keepdim)",
    "f(self, axis=dim, ddof=int(unbiased), keepdims=keepdim)",
    "f(inp, axis=dims, ddof=correction, dtype=output_dtype)",
)
LINALG = ("f(self)", "f(A)")
PAIR_OF_BASES = ("f(start, end, steps, dtype=dtype)", "f(start, end, steps, base=base, dtype=dtype)")
WINDOW, KAISER = (
    tuple(
        text + cast
        for text in (f"f(window_length{more})", f"periodic_of(f(window_length + periodic{more}), periodic)")
        for cast in ("", ".astype(dtype)")
    )
    for more in ("", ", beta")
)
SCALED = ("f(self, other)", "f(self, alpha * other)")
FFT_1 = ("f(self, n=n, axis=dim, norm=norm)",)
FFT_N = ("f(self, s=several(s), axes=several(dim), norm=norm)",)
LIKE = ("f(self, dtype=dtype)",)
SIZED = ("f(size, dtype=dtype)", "f(size, self.dtype)", "f(size, given(dtype, self))", "f(shape, dtype=dtype)")
TAKES_N = ("f(self, sections)", "f(self, indices)")
INDICES_OF = tuple(
    text.format(f"f(row, {offset}, col)")
    for offset in ("offset", "0")
    for text in ("{}", "tuple(x.astype(dtype) for x in {})")
)

MAPPING: dict[str, tuple[str, ...]] = {
    # ---------------------------------------------------------------- elementwise
    "numpy.add": SCALED,
    "numpy.subtract": SCALED,
    "numpy.clip": ("f(self, min=min, max=max)",),
    "numpy.divide": ("f(self, other)", "divided(f(self, other), self, other, rounding_mode)"),
    "numpy.round": ("f(self, decimals=decimals)",),
    "numpy.nan_to_num": ("f(self, nan=nan, posinf=posinf, neginf=neginf)",),
    "numpy.isclose": ("f(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan)",),
    "numpy.allclose": ("f(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan)",),
    "numpy.where": ("f(condition, self, other)", "f(pred, a, b)", "f(mask, value, self)", "f(condition)"),
    "numpy.isin": tuple(
        f"f({a}, {b}, invert=invert)" for a in ("elements", "element") for b in ("test_elements", "test_element")
    ),
    "scipy.special.multigammaln": ("f(self, p)",),
    "scipy.special.airy": ("f(x)[0]",),
    "scipy.special.spherical_jn": ("f(0, x)",),
    # ---------------------------------------------------------------- reductions
    "numpy.sum": (*REDUCE,),
    "numpy.prod": REDUCE,
    "numpy.mean": REDUCE,
    "numpy.nansum": REDUCE,
    "numpy.nanmean": REDUCE,
    "numpy.max": EXTREME,
    "numpy.min": EXTREME,
    "numpy.all": EXTREME,
    "numpy.any": EXTREME,
    "numpy.median": EXTREME,
    "numpy.nanmedian": EXTREME,
    "numpy.argmax": EXTREME,
    "numpy.argmin": EXTREME,
    "numpy.count_nonzero": EXTREME,
    "numpy.var": SPREAD,
    "numpy.std": SPREAD,
    "numpy.cumsum": ("f(self, axis=dim, dtype=dtype)",),
    "numpy.cumprod": ("f(self, axis=dim, dtype=dtype)",),
    "numpy.maximum.accumulate": ("f(self, axis=dim)",),
    "numpy.minimum.accumulate": ("f(self, axis=dim)",),
    "numpy.quantile": ("f(self, q, axis=dim, keepdims=keepdim, method=interpolation)",),
    "numpy.nanquantile": ("f(self, q, axis=dim, keepdims=keepdim, method=interpolation)",),
    "numpy.trapezoid": ("f(y, x, axis=dim)", "f(y, dx=dx, axis=dim)"),
    # ---------------------------------------------------------------- sorting and searching
    "numpy.sort": (
        "f(self, axis=dim, stable=stable)",
        "reversed_along(f(self, axis=dim, stable=stable), dim, descending)",
        "reversed_along(f(self, stable=stable), -1, descending)",
    ),
    "numpy.argsort": (
        "f(self, axis=dim, stable=stable)",
        "reversed_along(f(self, axis=dim, stable=stable), dim, descending)",
        "reversed_along(f(self, stable=stable), -1, descending)",
    ),
    "numpy.partition": (
        "kth(f(self, k - 1, axis=dim), k, dim, keepdim)",
        "kth(f(self, k - 1, axis=dim), k, dim, False)",
        "kth(f(self, k - 1), k, -1, False)",
    ),
    "numpy.argwhere": ("f(self)",),
    "numpy.searchsorted": (
        "f(sorted_sequence, self, side=side, sorter=sorter)",
        "f(sorted_sequence, self, side=side_of(right), sorter=sorter)",
        "f(sorted_sequence, self, side=side, sorter=sorter).astype(np.int32)",
        "f(sorted_sequence, self, side=side_of(right), sorter=sorter).astype(np.int32)",
        "f(self, np.arange(size + 1))",
    ),
    "numpy.digitize": ("f(self, boundaries)", "f(self, boundaries, right=not right)"),
    "numpy.unique": (
        "f(self, return_inverse=return_inverse, return_counts=return_counts)",
        "f(self, axis=dim, return_inverse=return_inverse, return_counts=return_counts)",
    ),
    "numpy.histogram": tuple(
        f"f(self, bins=bins{range})[0]" for range in ("", ", range=(0, max)", ", range=(min, 0)", ", range=(min, max)")
    ),
    "numpy.histogramdd": ("f(self, bins=bins, range=pairs_of(range), weights=weight, density=density)",),
    "numpy.bincount": ("f(self, weights=weights, minlength=minlength)",),
    "numpy.extract": ("f(mask, self)",),
    "numpy.place": ("wrote(f(self, mask, source), self)",),
    # ---------------------------------------------------------------- shapes
    "numpy.reshape": (
        "f(self, size)",
        "f(self, shape)",
        "f(self, other.shape)",
        "f(a, shape)",
        "f(self, (*self.shape[:dim], *sizes, *self.shape[dim:][1:]))",
        "f(a, (*a.shape[:start], int(np.prod(a.shape[start:end + 1])), *a.shape[end + 1:]))",
    ),
    "numpy.broadcast_to": ("f(self, size)", "f(self, other.shape)"),
    "numpy.broadcast_arrays": ("f(*tensors)",),
    "numpy.squeeze": ("f(self, axis=dim)", "f(a, axis=dimensions)"),
    "numpy.expand_dims": ("f(self, dim)",),
    "numpy.transpose": ("f(self)", "f(self, dims)", "f(a, permutation)"),
    "numpy.swapaxes": ("f(self, axis0, axis1)", "f(self, dim0, dim1)"),
    "numpy.moveaxis": ("f(self, source, destination)",),
    "numpy.flip": ("f(self, axis=dims)", "f(a, axis=dims)"),
    "numpy.roll": ("f(self, shifts, axis=dims)",),
    "numpy.rot90": ("f(self, k=k, axes=dims)",),
    "numpy.tile": ("f(self, dims)",),
    "numpy.repeat": ("f(self, repeats, axis=dim)", "f(np.arange(len(repeats)), repeats)"),
    "numpy.concatenate": ("f(tensors, axis=dim)",),
    "numpy.stack": ("f(tensors, axis=dim)",),
    "numpy.hstack": ("f(tensors)",),
    "numpy.atleast_1d": ("f(self)", "f(*tensors)"),
    "numpy.atleast_2d": ("f(self)", "f(*tensors)"),
    "numpy.atleast_3d": ("f(self)", "f(*tensors)"),
    "numpy.split": (
        "f(self, split_size, axis=dim)",
        "f(self, split_sizes, axis=dim)",
    ),
    "numpy.array_split": (
        "f(self, chunks, axis=dim)",
        "f(self, sections, axis=dim)",
        "f(self, indices, axis=dim)",
        "f(self, tensor_indices_or_sections, axis=dim)",
    ),
    "numpy.hsplit": TAKES_N,
    "numpy.vsplit": TAKES_N,
    "numpy.dsplit": TAKES_N,
    "numpy.meshgrid": ("f(*tensors)", "f(*tensors, indexing=indexing)"),
    "numpy.pad": (
        "f(self, pairs_of(pad))",
        "f(self, pairs_of(pad), mode=mode)",
        "f(self, pairs_of(pad), constant_values=value)",
        "f(self, pairs_of(pad), mode=mode, constant_values=value)",
    ),
    "numpy.resize": ("f(self, size)", "f(self, the_template.shape)"),
    "numpy.ndarray.resize": ("itself(f(self, size), self)", "itself(f(self, the_template.shape), self)"),
    "numpy.diag": ("f(self, k=diagonal)",),
    "numpy.diagflat": ("f(self, k=offset)",),
    "numpy.diagonal": ("f(self, offset=offset, axis1=dim1, axis2=dim2)",),
    "numpy.linalg.diagonal": ("f(A, offset=offset)",),
    "numpy.fill_diagonal": ("itself(f(self, fill_value, wrap=wrap), self)", "wrote(f(self, src), self)"),
    "numpy.tril": ("f(self, k=diagonal)",),
    "numpy.triu": ("f(self, k=diagonal)",),
    "numpy.diff": ("f(self, n=n, axis=dim, prepend=prepend, append=append)",),
    "numpy.gradient": (
        "f(self, axis=dim, edge_order=edge_order)",
        "f(self, spacing, axis=dim, edge_order=edge_order)",
        "f(self, *spacing, axis=dim, edge_order=edge_order)",
    ),
    "numpy.trace": ("f(self)",),
    "numpy.lib.stride_tricks.as_strided": (
        "f(self, size, stride)",
        "f(a, size, stride)",
        "f(self.ravel()[storage_offset:], size, stride)",
        "f(a.ravel()[storage_offset:], size, stride)",
    ),
    "numpy.lib.stride_tricks.sliding_window_view": ("f(self, size, axis=dimension)",),
    "numpy.size": ("f(self)",),
    "numpy.shape": ("f(self)", "f(self)[dim]", "f(self) == f(other)"),
    "numpy.ndim": ("f(self)",),
    "numpy.shares_memory": ("f(self, tensor)",),
    # ---------------------------------------------------------------- indexing
    "numpy.take": ("f(self, index, axis=dim)", "f(weight, indices, axis=0)"),
    "numpy.take_along_axis": ("f(self, index, dim)", "f(self, indices, dim)", "f(self, indices, None)"),
    "numpy.put_along_axis": ("wrote(f(self, index, src, dim), self)", "wrote(f(self, index, value, dim), self)"),
    "numpy.put": ("wrote(f(self, index, source), self)",),
    "numpy.add.at": (
        "wrote(f(self, slot(dim, index), source), self)",
        "wrote(f(self, slot(dim, index), alpha * source), self)",
        "wrote(f(self, along(self, index, dim), src), self)",
    ),
    "numpy.ndarray.__getitem__": (
        "f(self, slot(dim, index))",
        "f(self, slot(dim, slice(start, end, step)))",
        "f(self, slot(dim, slice(int(start), int(start) + length)))",
    ),
    "numpy.ndarray.__setitem__": (
        "wrote(f(self, slot(dim, index), src), self)",
        "wrote(f(self, slot(dim, slice(start, end, step)), src), self)",
    ),
    "numpy.ndarray.__iter__": ("list(f(self))", "list(f(np.moveaxis(self, dim, 0)))"),
    "numpy.ndarray.item": ("f(self)", "f(a)"),
    "numpy.ndarray.strides": ("self.strides[dim] // self.itemsize",),
    "numpy.ndarray.view": ("f(self)", "f(self, dtype)", "f(a, dtype)"),
    "numpy.ndarray.flatten": ("f(self)",),
    # ---------------------------------------------------------------- dtypes and copies
    "numpy.ndarray.astype": (
        "f(self, dtype)",
        "f(self, dtype, copy=copy)",
        "f(self, other.dtype)",
        "f(self, other.dtype, copy=copy)",
    ),
    "numpy.astype": ("f(a, dtype)",),
    "numpy.copyto": ("wrote(f(self, src), self)", "itself(f(dst, self), dst)", "itself(f(a, b), a)"),
    "numpy.result_type": ("f(tensor, other)", "f(scalar, tensor)", "f(scalar1, scalar2)"),
    "numpy.can_cast": ("f(from_, to)",),
    "numpy.promote_types": ("f(type1, type2)",),
    "numpy.array_equal": ("f(self, other)",),
    "numpy.conjugate": ("f(self)", "f(a)"),
    # ---------------------------------------------------------------- creation
    "numpy.zeros": SIZED,
    "numpy.ones": SIZED,
    "numpy.empty": SIZED,
    "numpy.full": (
        "f(size, fill_value, dtype=dtype)",
        "f(size, fill_value, self.dtype)",
        "f(size, fill_value, given(dtype, self))",
        "f(shape, fill_value, dtype=dtype)",
    ),
    "numpy.full_like": ("f(self, fill_value, dtype=dtype)", "f(self, value)", "f(a, fill_value, dtype=dtype)"),
    "numpy.zeros_like": LIKE,
    "numpy.ones_like": LIKE,
    "numpy.empty_like": LIKE,
    "numpy.array": ("f(s, dtype=dtype)",),
    "numpy.asarray": ("f(s, dtype=dtype)",),
    "numpy.ndarray": (
        "f(size, dtype=dtype, strides=stride)",
        "f(size, self.dtype, strides=stride)",
        "f(size, given(dtype, self), strides=stride)",
    ),
    "numpy.eye": ("f(n, dtype=dtype)", "f(n, m, dtype=dtype)"),
    "numpy.arange": (
        "f(end, dtype=dtype)",
        "f(start, end, dtype=dtype)",
        "f(start, end, step, dtype=dtype)",
        "f(like.shape[dim])",
        "f(start, start + step * length, step, dtype=dtype)",
    ),
    "numpy.linspace": PAIR_OF_BASES,
    "numpy.logspace": PAIR_OF_BASES,
    "numpy.tril_indices": INDICES_OF,
    "numpy.triu_indices": INDICES_OF,
    "numpy.bartlett": WINDOW,
    "numpy.blackman": WINDOW,
    "numpy.hamming": WINDOW,
    "numpy.hanning": WINDOW,
    "numpy.kaiser": (*KAISER, *(text.replace("beta", "12.0") for text in KAISER)),
    "numpy.vander": ("f(x, N, increasing=increasing)", "f(x, increasing=increasing)", "f(x, N)", "f(x)"),
    # ---------------------------------------------------------------- products and linear algebra
    "numpy.matmul": ("f(self, mat2)", "f(sparse, dense)", "f(self, other)", "f(self, vec)"),
    "numpy.dot": ("f(self, tensor)",),
    "numpy.einsum": ("f(equation, *tensors)", "f(equation, *tensors, optimize=contracted(path))"),
    "numpy.tensordot": ("f(self, other, (dims_self, dims_other))",),
    "numpy.cross": ("f(self, other)", "f(self, other, axis=dim)"),
    "numpy.linalg.cross": ("f(self, other, axis=dim)",),
    "numpy.linalg.vecdot": ("f(x, y, axis=dim)",),
    "numpy.linalg.multi_dot": ("f(matrices)", "f(tensors)"),
    "numpy.cov": ("f(self, ddof=correction, fweights=fweights, aweights=aweights)",),
    "numpy.corrcoef": ("f(self)",),
    "numpy.correlate": ("f(input, weight)",),
    "numpy.convolve": ("f(input, weight, padding)",),
    "numpy.linalg.cholesky": ("f(self)", "f(self, upper=upper)"),
    "numpy.linalg.cond": ("f(self, p=p)",),
    "numpy.linalg.det": LINALG,
    "numpy.linalg.inv": LINALG,
    "numpy.linalg.slogdet": LINALG,
    "numpy.linalg.eigvals": LINALG,
    "numpy.linalg.eig": LINALG,
    "numpy.linalg.svdvals": LINALG,
    "numpy.linalg.eigh": ("f(self, UPLO=UPLO)", "f(A, UPLO=UPLO)"),
    "numpy.linalg.eigvalsh": ("f(self, UPLO=UPLO)",),
    "numpy.linalg.lstsq": ("f(self, b, rcond=rcond)",),
    "numpy.linalg.solve": ("f(A, B)",),
    "numpy.linalg.svd": (
        "f(A, full_matrices=full_matrices)",
        "f(A, full_matrices=full_matrices, compute_uv=compute_uv)",
        "f(self, full_matrices=not some, compute_uv=compute_uv)",
    ),
    "numpy.linalg.qr": ("f(A, mode=mode)", "f(self)", "f(self, mode=('complete', 'reduced')[some])"),
    "numpy.linalg.pinv": ("f(self, rcond=rcond, hermitian=hermitian)", "f(self, rtol=rtol, hermitian=hermitian)"),
    "numpy.linalg.matrix_rank": (
        "f(self, tol=tol, hermitian=hermitian)",
        "f(input, tol=tol, hermitian=hermitian)",
        "f(self, tol=atol, hermitian=hermitian)",
        "f(input, tol=atol, hermitian=hermitian)",
        "f(self, rtol=rtol, hermitian=hermitian)",
        "f(input, rtol=rtol, hermitian=hermitian)",
    ),
    "numpy.linalg.matrix_norm": ("f(self, ord=ord, keepdims=keepdim)",),
    "numpy.linalg.matrix_power": ("f(self, n)",),
    "numpy.linalg.tensorinv": ("f(self, ind=ind)",),
    "numpy.linalg.tensorsolve": ("f(self, other, axes=dims)",),
    "numpy.linalg.norm": ("f(self, ord=ord, axis=dim, keepdims=keepdim)", "f(self, ord=p, axis=dim, keepdims=keepdim)"),
    "numpy.linalg.vector_norm": ("f(self, ord=ord, axis=dim, keepdims=keepdim)",),
    # ---------------------------------------------------------------- random numbers, from NumPy with the seed of torch
    "numpy.random.rand": ("f(*size)", "np.asarray(f(*size)).astype(dtype)"),
    "numpy.random.randn": ("f(*size)", "np.asarray(f(*size)).astype(dtype)"),
    "numpy.random.randint": (
        "f(high, size=size)",
        "f(low, high, size=size)",
        "f(high, size=size, dtype=dtype)",
        "f(low, high, size=size, dtype=dtype)",
        "f(to, size=self.shape)",
        "f(from_, to, size=self.shape)",
        "f(from_, limit_of(self) + 1, size=self.shape)",
        "f(limit_of(self) + 1, size=self.shape)",
    ),
    "numpy.random.permutation": ("f(n)", "f(n).astype(dtype)"),
    "numpy.random.uniform": (
        "f(size=self.shape)",
        "f(from_, size=self.shape)",
        "f(high=to, size=self.shape)",
        "f(from_, to, size=self.shape)",
        "stored(f(low, high, size=shape), np.ndarray(shape, dtype, strides=[n * dtype.itemsize for n in stride]))",
    ),
    "numpy.random.normal": (
        "f(mean, std)",
        "f(mean)",
        "f(mean, std, size=size)",
        "np.asarray(f(mean, std, size=size)).astype(dtype)",
        "np.asarray(f(mean, std, size=shape)).astype(dtype)",
        *(f"f({how}size=self.shape)" for how in ("", "mean, ", "scale=std, ", "mean, std, ")),
    ),
    "numpy.random.binomial": ("f(1, p, size=self.shape)", "f(count.astype(int), prob)", "f(1, self)"),
    "numpy.random.poisson": ("f(self)",),
    "numpy.random.standard_gamma": ("f(self)",),
    "numpy.random.dirichlet": ("f(self)",),
    "numpy.random.standard_cauchy": (
        "f(self.shape)",
        "median + f(self.shape)",
        "sigma * f(self.shape)",
        "median + sigma * f(self.shape)",
    ),
    "numpy.random.exponential": ("f(size=self.shape)", "f(1 / lambd, self.shape)"),
    "numpy.random.geometric": ("f(p, self.shape)",),
    "numpy.random.lognormal": tuple(
        f"f({how}size=self.shape)" for how in ("", "mean=mean, ", "sigma=std, ", "mean=mean, sigma=std, ")
    ),
    "numpy.random.choice": (
        "f(len(self), num_samples, p=self)",
        "f(len(self), num_samples, replace=replacement, p=self)",
    ),
    # ---------------------------------------------------------------- Fourier transforms
    "numpy.fft.fftn": (*FFT_N, "f(self, axes=several(dim))"),
    "numpy.fft.ifftn": FFT_N,
    "numpy.fft.rfftn": (*FFT_N, "f(self, axes=several(dim))"),
    "numpy.fft.irfftn": FFT_N,
    "numpy.fft.fft2": FFT_N,
    "numpy.fft.ifft2": FFT_N,
    "numpy.fft.rfft2": FFT_N,
    "numpy.fft.irfft2": FFT_N,
    "numpy.fft.fft": FFT_1,
    "numpy.fft.ifft": FFT_1,
    "numpy.fft.rfft": FFT_1,
    "numpy.fft.irfft": FFT_1,
    "numpy.fft.hfft": FFT_1,
    "numpy.fft.ihfft": FFT_1,
    "numpy.fft.fftfreq": ("f(n, d)", "f(n)", "f(n, d).astype(dtype)", "f(n).astype(dtype)"),
    "numpy.fft.rfftfreq": ("f(n, d)", "f(n)", "f(n, d).astype(dtype)", "f(n).astype(dtype)"),
    "numpy.fft.fftshift": ("f(self, axes=dim)",),
    "numpy.fft.ifftshift": ("f(self, axes=dim)",),
}

# Differences that show only in another, equally natural NumPy call; the calls of their examples use these templates.
SPELLINGS = {
    "descending-by-negation": "f(-self, axis=dim, stable=stable) if descending else None",
    "bool-power-is-int64": "self ** exponent",
    "repeat-is-tile": "np.repeat(self, repeats)",
    "memory-format": "self.copy()",
    "index-int-not-advanced": "f(self[None], (0, *index_of(indices)))",
    "nonzero-rows": "np.nonzero(self)",
    "transpose-pair": "np.transpose(self, (dim0, dim1))",
    "half-power-is-sqrt": "f(self, np.full(self.shape, exponent, self.dtype))",
}
