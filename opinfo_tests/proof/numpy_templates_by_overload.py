"""Templates for single overloads that the templates of their NumPy function in `numpy_templates` do not fit."""

from __future__ import annotations

from itertools import product

from .numpy_templates import WINDOW

SLICES = tuple(
    f"slot({dim}, slice({start}, {end}, {step}))"
    for dim, start, end, step in product(("dim", "0"), ("start", "None"), ("end", "None"), ("step", "None"))
)
WRITE_AT = (
    "wrote(f(self, index_of(indices), values), self)",
    "wrote(f(self, index_of(indices), added(self, index_of(indices), values, accumulate)), self)",
)
TRANSFORMED = {
    "c2c": "(f if forward else np.fft.ifftn)(self, axes=dim, norm=norm_of(normalization))",
    "r2c": "(f if onesided else np.fft.fftn)(self, axes=dim, norm=norm_of(normalization))",
    "c2r": "f(self, s=(*[self.shape[d] for d in dim[:-1]], last_dim_size), axes=dim, norm=norm_of(normalization))",
}

OVERLOADS: dict[str, tuple[str, ...]] = {
    "aten::flatten_dense_tensors": ("f([x.ravel() for x in tensors])",),
    "aten::msort": ("f(self, axis=0)",),
    "aten::rsub.Tensor": ("f(other, self)", "f(other, alpha * self)"),
    "aten::rsub.Scalar": ("f(other, self)", "f(other, alpha * self)"),
    "aten::sum_to_size": (
        "self if self.ndim and not added_axes(self, size) else f(self, axis=added_axes(self, size), keepdims=True).reshape(size)",
    ),
    "aten::histogram.bins_tensor": ("f(self, bins, weights=weight, density=density)",),
    "aten::histogram.bin_ct": ("f(self, bins=bins, range=range, weights=weight, density=density)",),
    "aten::_foreach_norm.Scalar": ("[f(x) for x in self]", "[f(x, ord=ord) for x in self]"),
    "aten::_foreach_max": ("[f(x) for x in self]",),
    "aten::index.Tensor": ("f(self, index_of(indices))",),
    "aten::_unsafe_index.Tensor": ("f(self, index_of(indices))",),
    "aten::index_put": WRITE_AT,
    "aten::_unsafe_index_put": WRITE_AT,
    "aten::index_fill.int_Tensor": ("wrote(f(self, slot_index(self, dim, index), value, dim), self)",),
    "aten::index_fill.int_Scalar": ("wrote(f(self, slot_index(self, dim, index), value, dim), self)",),
    "aten::index_copy": ("wrote(f(self, slot_index(self, dim, index), source, dim), self)",),
    "aten::take": ("f(self, index)",),
    "aten::repeat": ("f(self, repeats)",),
    "aten::_shape_as_tensor": ("np.array(f(self), int)",),
    "aten::_test_autograd_multiple_dispatch.ntonly": ("f(self, *(() if b else ()))",),
    "aten::_test_functorch_fallback": ("f(self, *(() if other is None else ()))",),
    **{
        f"aten::gradient.{name}": ("f(self, *spacing, axis=dim, edge_order=edge_order)",)
        for name in ("scalarrayint", "scalarrayarray", "tensorarrayint", "tensorarray")
    },
    "aten::nuclear_norm": ("f(self, 'nuc', keepdims=keepdim)",),
    "aten::nuclear_norm.dim": ("f(self, 'nuc', axis=dim, keepdims=keepdim)",),
    "aten::split.sizes": ("f(self, split_size, axis=dim)",),
    "aten::_conj": ("f(self)",),
    "aten::nonzero_static": ("f(self)[:size]", "untold(f(self)[:size], fill_value)"),
    "aten::view_as_complex": ("f(self, complex_of(self))[..., 0]",),
    "aten::view_as_real": ("f(self[..., None], real_of(self))",),
    "prims::broadcast_in_dim": (
        "f(np.expand_dims(a, tuple(i for i in np.arange(len(shape)) if i not in broadcast_dimensions)), shape)",
    ),
    "aten::_convert_indices_from_csr_to_coo": tuple(
        f"np.stack([f(np.arange(len(crow_indices) - 1), np.diff(crow_indices)), col_indices]{turned}){cast}"
        for turned, cast in product(("", "[::1 - 2 * transpose]"), ("", ".astype((np.int64, np.int32)[out_int32])"))
    ),
    "aten::_new_zeros_with_same_feature_meta": (
        "untold(f(other.shape, other.dtype), self)",
        "f((*self.shape[:self_num_batch_dims], *other.shape), other.dtype)",
    ),
    "aten::as_strided_scatter": (
        "beneath(stored(src, inside(f(self.copy(), size, stride))), self)",
        "beneath(stored(src, inside(f(self.copy().ravel()[storage_offset:], size, stride))), self)",
    ),
    "aten::empty_permuted": (
        "np.moveaxis(f([size[d] for d in physical_layout], dtype=dtype), np.arange(len(size)), physical_layout)",
    ),
    "aten::norm.ScalarOpt_dtype": ("f(self.astype(dtype))", "f(self.astype(dtype), ord=p)"),
    "aten::norm.ScalarOpt_dim_dtype": (
        "f(self.astype(dtype), axis=dim, keepdims=keepdim)",
        "f(self.astype(dtype), ord=p, axis=dim, keepdims=keepdim)",
    ),
    "aten::unflatten_dense_tensors": ("shaped_as(f(flat, np.cumsum([x.size for x in tensors])[:-1]), tensors)",),
    "aten::_index_put_impl_": tuple(text.replace("wrote(", "itself(") for text in WRITE_AT),
    "aten::unfold": ("untold(f(self, size, axis=dimension), step)",),
    "aten::hamming_window.periodic_alpha": tuple(f"untold({text}, alpha)" for text in WINDOW),
    "aten::hamming_window.periodic_alpha_beta": tuple(f"untold({text}, alpha, beta)" for text in WINDOW),
    **{
        f"aten::_cast_{torch}": (f"f(self, np.{name})",)
        for torch, name in (
            ("Byte", "uint8"),
            ("Char", "int8"),
            ("Double", "float64"),
            ("Float", "float32"),
            ("Half", "float16"),
            ("Int", "int32"),
            ("Long", "int64"),
            ("Short", "int16"),
        )
    },
    **{
        f"aten::{pad}_pad{n}d": (f"f(self, pairs_of(padding), mode='{mode}')",)
        for n in (1, 2, 3)
        for pad, mode in (("reflection", "reflect"), ("replication", "edge"))
    },
    "aten::_pad_circular": ("f(self, pairs_of(pad), mode='wrap')",),
    "aten::slice.Tensor": tuple(f"f(self, {place})" for place in SLICES),
    "aten::normal_": tuple(
        f"stored(f({how}size=self.shape), self)" for how in ("", "mean, ", "scale=std, ", "mean, std, ")
    ),
    "aten::bernoulli_.float": ("stored(f(1, 0.5, size=self.shape), self)", "stored(f(1, p, size=self.shape), self)"),
    "aten::slice_scatter": tuple(f"wrote(f(self, {place}, src), self)" for place in SLICES),
    **{f"aten::_fft_{name}": (text,) for name, text in TRANSFORMED.items()},
    **{f"aten::_fft_{name}.out": (f"{text[:-1]}, out=out)",) for name, text in TRANSFORMED.items()},
    "prims::fft_c2c": ("(f if forward else np.fft.ifftn)(self, axes=dim, norm='backward' if forward else 'forward')",),
    "prims::fft_r2c": ("(f if onesided else np.fft.fftn)(self, axes=dim)",),
    "prims::fft_c2r": ("f(self, s=(*[self.shape[d] for d in dim[:-1]], last_dim_size), axes=dim, norm='forward')",),
    "aten::_make_dep_token": ("f(())", "f((), dtype=dtype)"),
    "aten::_saturate_weight_to_fp16": ("f(weight, -65504, 65504, out=weight)",),
    "aten::im2col": (
        "spaced(f(with_zeros(self, padding), spans(kernel_size, dilation), axis=(-2, -1)), stride, dilation)",
    ),
    "aten::segment_reduce": tuple(
        f"(f if reduce == 'sum' else reduction(reduce).reduceat)(data, {places}, axis=axis)"
        for places in ("lengths", "offsets")
    ),
    "aten::_dim_arange": ("f(like.shape[dim])",),
}
