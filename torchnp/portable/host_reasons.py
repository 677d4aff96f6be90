"""Core ATen operators without a portable row, and the reason why their NumPy kernels run on the host."""

from __future__ import annotations

_BACKWARD = "a gradient: the library's own gradient of the forward operator takes its place in training"
_STRIDES = "strides and memory are not part of these libraries' arrays"
_WRITES = "it writes to its argument; a program is made functional when it is loaded"
_SCATTER = "the standard writes to no computed places; JAX has its own row"

HOST_REASONS = {
    "aten::_adaptive_avg_pool2d_backward": _BACKWARD,
    "aten::avg_pool2d_backward": _BACKWARD,
    "aten::convolution_backward": _BACKWARD,
    "aten::embedding_dense_backward": _BACKWARD + "; JAX has its own row",
    "aten::max_pool2d_with_indices_backward": _BACKWARD,
    "aten::native_group_norm_backward": _BACKWARD,
    "aten::native_layer_norm_backward": _BACKWARD,
    "aten::as_strided": _STRIDES,
    "aten::sym_is_contiguous": _STRIDES,
    "aten::sym_storage_offset": _STRIDES,
    "aten::sym_stride.int": _STRIDES,
    "aten::_native_batch_norm_legit": _WRITES,
    "aten::atan2.out": _WRITES,
    "aten::resize_": _WRITES,
    "aten::index_put": _SCATTER,
    "aten::scatter.src": _SCATTER,
    "aten::scatter.value": _SCATTER,
    "aten::scatter_add": _SCATTER,
    "aten::scatter_reduce.two": _SCATTER,
    "aten::col2im": _SCATTER,
    "aten::masked_scatter": "how many elements it takes from its source depends on values",
    "aten::nonzero": "the size of its result depends on values",
    "aten::erf": "the standard has no error function; JAX has its own row",
    "aten::_cdist_forward": "rare in programs; no row has been written",
    "aten::_embedding_bag": "rare in programs; no row has been written",
    "aten::_pdist_forward": "rare in programs; no row has been written",
    "aten::grid_sampler_2d": "rare in programs; no row has been written",
}
"""The reason for each operator, by name."""
