"""Overloads of torchnp's table that no row can call, with the reasons."""

from .internal_operators import NO_CPU
from .rare_operators import HAS_PHILOX, PHILOX

# Operators for which torch has kernels only on other devices, or no CPU kernel that can be called directly.
ON_OTHER_DEVICES = [
    "_fused_rms_norm_backward",
    "batch_norm_stats",
    "batch_norm_stats.out",
    "batch_norm_elemt",
    "batch_norm_elemt.out",
    "batch_norm_gather_stats",
    "batch_norm_gather_stats.out",
    "batch_norm_gather_stats_with_counts",
    "batch_norm_gather_stats_with_counts.out",
    "batch_norm_backward_reduce",
    "batch_norm_backward_reduce.out",
    "batch_norm_backward_elemt",
    "batch_norm_backward_elemt.out",
    "_thnn_fused_lstm_cell",
    "_thnn_fused_lstm_cell.out",
    "_thnn_fused_lstm_cell_backward",
    "_thnn_fused_lstm_cell_backward_impl",
    "_thnn_fused_lstm_cell_backward_impl.out",
    "_thnn_fused_gru_cell",
    "_thnn_fused_gru_cell.out",
    "_thnn_fused_gru_cell_backward",
    "_thnn_fused_gru_cell_backward.out",
    "linear_backward",
    "linear_backward.out",
    "matmul_backward",
    "matmul_backward.out",
    "max_pool2d_backward",
    "max_pool2d_backward.out",
    "_conv_depthwise2d",
    "_conv_depthwise2d.out",
    "conv_depthwise3d",
    "conv_depthwise3d.out",
    "_copy_from_and_resize",
    "_copy_from_and_resize.out",
]

UNREACHED = {
    "prims::xor_sum": "torch leaves it to its compiler",
    "aten::mkldnn_rnn_layer_backward": "what oneDNN keeps for it has no layout that could be drawn",
    "aten::mkldnn_rnn_layer_backward.out": "what oneDNN keeps for it has no layout that could be drawn",
    "aten::_copy_from": "torch has no kernel of it on the CPU",
    "aten::_copy_from.out": "torch has no kernel of it on the CPU",
    **{f"aten::{name}": "torch has no kernel of it on the CPU" for name in (*NO_CPU, *ON_OTHER_DEVICES)},
}
if not HAS_PHILOX:
    names = {line.split()[1] for line in PHILOX.strip().splitlines()}
    UNREACHED |= {f"aten::{name}": "torch has no kernel of it on the CPU before 2.14" for name in names}
