"""The constraint rows of attention, recurrence, sequences and optimisers; `constraints` says how they are read."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from ..case import Named
from . import constraint_layers  # noqa: F401  the rows here come over those
from .constraints import C, I, L, N, T, Ts, rule, sizes

# ---------------------------------------------------------------- attention and recurrence

QKV = {"query": T("n g h 4"), "key": T("n g w 4", "same"), "value": T("n g w 4", "same"), "dropout_p": C((0.0,)), "dropout_mask": C((None,)), "scale": C((None, 0.5)),
       "enable_gqa": C((False,)), "attn_mask": T("h w", "same"), "is_causal": C((False,))}  # fmt: skip
rule(
    "scaled_dot_product_attention _scaled_dot_product_attention_math _scaled_dot_product_flash_attention_for_cpu",
    args=QKV,
    dtypes="halffloat",
    mixed=0,
    values="tame",
    sizes={"h": (1, 4), "w": (1, 4)},
    wild=6,
)
# torch's loops read each head's values as one run of memory, whatever the strides say.
DENSE_QKV = {k: replace(v, layout="c") if isinstance(v, T) else v for k, v in QKV.items()}
rule("_scaled_dot_product_flash_attention_for_cpu", args=DENSE_QKV)
rule(
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    args={
        **DENSE_QKV,
        "grad_out": T("n g h 4", layout="c"),
        # Sums that are none of these scores': of large ones the exponential overflows, and torch's order decides.
        "query": T("n g h 4", "same", "unit", layout="c"),
        "key": T("n g w 4", "same", "unit", layout="c"),
        "out": T("n g h 4", "same", layout="c"),
        "logsumexp": T("n g h", "float32"),
    },
    dtypes="wide",
    values="tame",
    sizes={"h": (1, 4), "w": (1, 4)},
    wild=0,
)
rule(
    "_transform_bias_rescale_qkv",
    args={"qkv": T("n h 12"), "qkv_bias": T("12", "same"), "num_heads": C((1, 2, 4))},
    dtypes="wide",
    sizes={"h": (1, 3)},
)
CELL = {
    "input": T("n k"),
    "hx": T("n h", "same"),
    "w_ih": T("g*h k", "same"),
    "w_hh": T("g*h h", "same"),
    "b_ih": T("g*h", "same", always=True),
    "b_hh": T("g*h", "same", always=True),
}
for _gates, _name in ((1, "rnn_relu"), (1, "rnn_tanh"), (3, "gru"), (4, "lstm")):
    _s = {"g": (_gates, _gates), "h": (1, 3), "k": (1, 3)}
    _both = {
        "always": frozenset(["b_ih", "b_hh"]),
        "dtypes": "wide",
        "mixed": 0,
        "values": "tame",
        "sizes": _s,
        "wild": 0,
    }
    rule(f"{_name}_cell", args=CELL | ({"hx": Ts("n h", "same", count=2)} if _name == "lstm" else {}), **_both)
    _params = lambda c: [
        c.array(T(t, "same")) for t in (["g*h k", "g*h h", "g*h", "g*h"] if c.held_bias() else ["g*h k", "g*h h"])
    ]
    _layer = {"input": T("d n k"), "hx": T("1 n h", "same"), "params": _params, "has_biases": lambda c: c.held_bias(), "num_layers": C((1,)), "dropout": C((0.0,)), "train": C((False,)),
              "bidirectional": C((False,)), "batch_first": C((False,)), "data": T("4 k"), "batch_sizes": C(())}  # fmt: skip
    _layer["batch_sizes"] = lambda c: c.array(T("2", "int64", (2, 2), layout="c"))
    rule(f"{_name}.input", args=_layer | ({"hx": Ts("1 n h", "same", count=2)} if _name == "lstm" else {}), **_both)
    rule(
        f"{_name}.data",
        args=_layer | {"hx": Ts("1 2 h", "same", count=2) if _name == "lstm" else T("1 2 h", "same")},
        **{**_both, "wild": 0},
    )
rule(
    "_pack_padded_sequence",
    args={"input": T("3 2 k"), "lengths": lambda c: c.array(T("2", "int64", (3, 3))), "batch_first": C((False,))},
    wild=0,
)
rule(
    "_pad_packed_sequence",
    args={
        "data": T("6 k"),
        "batch_sizes": T("3", "int64", (2, 2)),
        "batch_first": C((False, True)),
        "padding_value": N((0, 1.5)),
        "total_length": C((-1, 4)),
    },
    wild=0,
)
rule(
    "_pack_padded_sequence_backward",
    args={
        "grad": T("6 k"),
        "input_size": sizes("3 2 k"),
        "batch_sizes": T("3", "int64", (2, 2)),
        "batch_first": C((False,)),
    },
    wild=0,
)

# ---------------------------------------------------------------- more losses, and optimisers

MARGIN = {
    "self": T("n c"),
    "target": T("n", "int64", (0, "c-1")),
    "p": N((1, 2)),
    "margin": N((1, 0.5)),
    "weight": T("c", "same"),
}
rule("multi_margin_loss", args=MARGIN, dtypes="wide")
rule(
    "multi_margin_loss_backward",
    args={**MARGIN, "grad_output": T(""), "self": T("n c", "same"), "reduction": I(1, 2)},
    dtypes="wide",
)
rule(
    "multilabel_margin_loss multilabel_margin_loss_forward",
    args={"self": T("n c"), "target": T("n c", "int64", (-1, "c-1"))},
    dtypes="wide",
    wild_values=False,
)
rule(
    "multilabel_margin_loss_backward",
    args={
        "grad_output": T(""),
        "self": T("n c", "same"),
        "target": T("n c", "int64", (-1, "c-1")),
        "is_target": T("n c", "same", "unit"),
        "reduction": I(1, 2),
    },
    dtypes="wide",
    wild_values=False,
)
_LISTS = {
    k: Ts("3 2", "same", "positive", count=2)
    for k in ("self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "state_sums", "momentum_buffer_list")
}
rule("_fused_*", args={**_LISTS, "state_steps": Ts("", "float32", "positive", count=2), "lr": C((0.1, 0.01)), "lr_decay": C((0.0, 0.1)), "weight_decay": C((0.0, 0.1)), "eps": C((1e-8,)),
     "beta1": C((0.9,)), "beta2": C((0.99,)), "grad_scale": C((None,)), "found_inf": C((None,)), "momentum": C((0.0, 0.9)), "dampening": C((0.0,))}, dtypes="wide", mixed=0, wild=0)  # fmt: skip
rule(
    "_fused_sgd*",
    args={"momentum_buffer_list": Ts("3 2", "same", count=0), "momentum": C((0.0,)), "nesterov": C((False,))},
)
rule("_fused_rms_norm", args={"eps": C((None, 1e-5))})
rule("_fused_*.tensor_lr", args={"lr": T("", "float32", "positive")})
rule(
    "_amp_foreach_non_finite_check_and_unscale",
    args={"found_inf": T("1", "float32", "unit"), "inv_scale": T("1", "float32", "positive")},
    dtypes="float",
)
rule(
    "_amp_update_scale",
    args={
        "self": T("1", "float32", "positive"),
        "growth_tracker": T("1", "int32", (0, 3)),
        "found_inf": T("1", "float32", "unit"),
        "growth_interval": I(1, 3),
    },
    dtypes="wide",
    wild=0,
)
rule(
    "_rowwise_prune",
    args={"weight": T("n m"), "mask": T("n", "bool"), "compressed_indices_dtype": lambda c: c.named("int64")},
    dtypes="float",
)
rule(
    "*max_pool?d*_backward native_batch_norm_backward batch_norm_backward _native_batch_norm_legit.no_stats",
    wild_values=False,
    wild=0,
)
rule("native_batch_norm_backward batch_norm_backward", args={"train": C((True,)), "update": C((True,)), "save_mean": T("c", "same", "tame", always=True), "running_mean": C((None,)), "running_var": C((None,)),
     "save_invstd": T("c", "same", "positive", always=True), "save_var": T("c", "same", "positive", always=True), "weight": T("c", "same", always=True)})  # fmt: skip
# A channel of equal numbers leaves the rounding of its mean, which is nothing only for small ones.
rule("_native_batch_norm_legit.no_stats", args={"training": C((True,)), "input": T("n c h?", values="tame")})
rule("bilinear", sizes={"k": (1, 3), "m": (1, 3)})

# ---------------------------------------------------------------- convolutions and pools by another name

_SLOW = {"self": T("n c h w"), "weight": T("o c k kw", "same"), "kernel_size": lambda c: list(c.arrays[1].shape[2:]), "bias": T("o", "same"), "stride": L(2, 1, 2),
         "padding": L(2, 0, 1), "dilation": L(2, 1, 1), "output_padding": L(2, 0, 0)}  # fmt: skip
_SLOW3 = {
    **_SLOW,
    "self": T("n c d h w"),
    "weight": T("o c kd k kw", "same"),
    "stride": L(3, 1, 2),
    "padding": L(3, 0, 1),
    "dilation": L(3, 1, 1),
    "output_padding": L(3, 0, 0),
}
_SLOW_SIZES = {"k": (1, 3), "kw": (1, 3), "kd": (1, 2), "h": (3, 6), "w": (3, 6), "d": (2, 4), "o": (1, 3), "c": (1, 3)}
rule("slow_conv_dilated2d _slow_conv2d_forward", args=_SLOW, dtypes="wide", mixed=2, sizes=_SLOW_SIZES)
rule("slow_conv3d slow_conv3d_forward slow_conv_dilated3d", args=_SLOW3, dtypes="wide", mixed=2, sizes=_SLOW_SIZES)
rule(
    "slow_conv_transpose2d", args={**_SLOW, "weight": T("c o k kw", "same")}, dtypes="wide", mixed=2, sizes=_SLOW_SIZES
)
rule(
    "slow_conv_transpose3d",
    args={**_SLOW3, "weight": T("c o kd k kw", "same")},
    dtypes="wide",
    mixed=2,
    sizes=_SLOW_SIZES,
)
rule("_slow_conv2d_backward", args={**_SLOW, "grad_output": T("n o h-k+1 w-kw+1"), "self": T("n c h w", "same"), "kernel_size": sizes("k kw"), "stride": L(2, 1, 1), "padding": L(2, 0, 0)},
     dtypes="wide", mixed=2, sizes=_SLOW_SIZES)  # fmt: skip
rule(
    "max_unpool2d",
    args={"self": T("n c 2 3"), "indices": T("n c 2 3", "int64", (0, 23)), "output_size": C(([4, 6],))},
    dtypes="float",
    wild_values=False,
)
rule("max_unpool3d", args={"self": T("n c 1 2 3"), "indices": T("n c 1 2 3", "int64", (0, 47)), "output_size": C(([2, 4, 6],)), "stride": C(([2, 2, 2],)), "padding": C(([0, 0, 0],))},
     dtypes="float", wild_values=False)  # fmt: skip
rule(
    "fractional_max_pool2d",
    args={
        "self": T("n c 5 6"),
        "kernel_size": C(([2, 2], [1, 2])),
        "output_size": C(([2, 3], [3, 2])),
        "random_samples": T("n c 2", "same", "unit"),
    },
    dtypes="wide",
    wild=4,
)
rule(
    "fractional_max_pool3d",
    args={
        "self": T("n c 4 5 6"),
        "kernel_size": C(([2, 2, 2], [1, 2, 1])),
        "output_size": C(([2, 2, 3],)),
        "random_samples": T("n c 3", "same", "unit"),
    },
    dtypes="wide",
    wild=4,
)
rule("fractional_max_pool2d_backward", args={"grad_output": T("n c 2 3"), "self": T("n c 5 6", "same"), "kernel_size": C(([2, 2],)), "output_size": C(([2, 3],)), "indices": T("n c 2 3", "int64", (0, 29))},
     dtypes="wide", wild=0)  # fmt: skip
rule("fractional_max_pool3d_backward", args={"grad_output": T("n c 2 2 3"), "self": T("n c 4 5 6", "same"), "kernel_size": C(([2, 2, 2],)), "output_size": C(([2, 2, 3],)),
     "indices": T("n c 2 2 3", "int64", (0, 119))}, dtypes="wide", wild=0)  # fmt: skip

# ---------------------------------------------------------------- sequences, bags, heads

_CTC = {
    "log_probs": T("4 2 3"),
    "targets": T("2 2", "int64", (1, 2)),
    "input_lengths": C(([4, 4], [4, 3])),
    "target_lengths": C(([2, 2], [1, 2])),
    "blank": C((0,)),
}
rule("ctc_loss _ctc_loss", args=_CTC, dtypes="wide", values="tame", mixed=0, wild=0)
rule(
    "ctc_loss.Tensor _ctc_loss.Tensor",
    args={"input_lengths": T("2", "int64", (4, 4)), "target_lengths": T("2", "int64", (1, 2))},
)
rule(
    "_ctc_loss_backward",
    args={
        **_CTC,
        "grad": T("2"),
        "log_probs": T("4 2 3", "same"),
        "neg_log_likelihood": T("2", "same"),
        "log_alpha": T("2 4 5", "same"),
    },
    dtypes="wide",
    values="tame",
    wild=0,
)
rule(
    "_ctc_loss_backward.Tensor",
    args={"input_lengths": T("2", "int64", (4, 4)), "target_lengths": T("2", "int64", (2, 2))},
)
_BAG_GRAD = {"grad": T("2 m"), "indices": T("4", "int64", (0, 2)), "offsets": T("2", "int64", (0, 0)), "offset2bag": T("4", "int64", (0, 1)), "bag_size": T("2", "int64", (2, 2)),
             "maximum_indices": T("2 m", "int64", (0, 2)), "num_weights": C((3,)), "mode": C((0, 1)), "sparse": C((False,)), "per_sample_weights": C((None,)), "padding_idx": C((-1,)),
             "scale_grad_by_freq": C((False,)), "weight": T("3 m", "same")}  # fmt: skip
rule("_embedding_bag_backward _embedding_bag_dense_backward", args=_BAG_GRAD, dtypes="wide", wild=0)
rule("_embedding_bag_per_sample_weights_backward", args={**_BAG_GRAD, "mode": C((0,))}, dtypes="wide", wild=0)
_REDUCE = {
    "data": T("4 m"),
    "reduce": C(("sum", "mean", "max", "min", "prod")),
    "lengths": T("2", "int64", (2, 2)),
    "indices": C((None,)),
    "offsets": C((None,)),
    "axis": C((0,)),
    "unsafe": C((False, True)),
}
rule("segment_reduce", args=_REDUCE, dtypes="float", always=frozenset(["lengths"]), wild=0)
rule(
    "_segment_reduce_backward",
    args={**_REDUCE, "grad": T("2 m"), "output": T("2 m", "same"), "data": T("4 m", "same")},
    dtypes="wide",
    always=frozenset(["lengths"]),
    wild=0,
)
_HEADS = {"embed_dim": C((4,)), "num_head": C((2, 1)), "num_heads": C((2, 1)), "qkv_weight": T("12 4", "same"), "qkv_bias": T("12", "same"), "proj_weight": T("4 4", "same"), "proj_bias": T("4", "same"),
          "mask": C((None,)), "mask_type": C((None,))}  # fmt: skip
rule(
    "_native_multi_head_attention",
    args={**_HEADS, "query": T("n h 4"), "key": lambda c: c.keep(c.arrays[0]), "value": lambda c: c.keep(c.arrays[0])},
    dtypes="wide",
    values="tame",
    sizes={"h": (1, 3)},
    wild=0,
    mixed=0,
)
rule("_transformer_encoder_layer_fwd", args={**_HEADS, "src": T("n h 4"), "norm_weight_1": T("4", "same"), "norm_bias_1": T("4", "same"), "norm_weight_2": T("4", "same"), "norm_bias_2": T("4", "same"),
     "ffn_weight_1": T("3 4", "same"), "ffn_bias_1": T("3", "same"), "ffn_weight_2": T("4 3", "same"), "ffn_bias_2": T("4", "same")}, dtypes="wide", values="tame", sizes={"h": (1, 3)}, wild=0, mixed=0)  # fmt: skip
rule(
    "einsum",
    args={
        "equation": C(("ij,jk->ik", "ij,jk", "ij,jk->ki", "...j,jk->...k")),
        "tensors": lambda c: [c.array(T("n k")), c.array(T("k m", "same"))],
        "path": C((None,)),
    },
    dtypes="inexact",
    mixed=2,
)
rule("_masked_softmax _masked_softmax_backward", args={"self": T("n g h h"), "mask": T("n g h h", "bool"), "grad_output": T("n g h h"), "output": T("n g h h", "same", "unit"), "dim": C((3, -1)), "mask_type": C((2,))},
     dtypes="wide", wild=4)  # fmt: skip
for _amsgrad in ("_fused_adam", "_fused_adamw", "_fused_adam.tensor_lr", "_fused_adamw.tensor_lr"):
    rule(_amsgrad, args={"max_exp_avg_sqs": Ts("3 2", "same", "positive", count=0), "amsgrad": C((False,))})

# After the rows of mm, segment_reduce and convolutions, which their names match too.
rule("_foreach_mm", args={"self": Ts("n k", count=2), "mat2": Ts("k m", "same", count=2)}, dtypes="float")
rule(
    "segment_reduce",
    args={"lengths": T("2", "int64", (2, 2), always=True), "offsets": C((None,)), "unsafe": C((True,))},
)
rule("_lu_with_info", args={"self": T("* n n", "main", "square")}, dtypes="lapack")
rule(
    "narrow.Tensor",
    args={"self": T("n m k"), "dim": I(0, 1), "start": T("", "int64", (0, 0))},
    sizes={"n": (1, 4), "m": (1, 4)},
)
rule("linalg_tensorsolve", wild=6)
rule("mkldnn_convolution", args={"self": T("n g*c h w"), "weight": T("g*o c k kw", "same"), "bias": T("g*o", "same"), "padding": L(2, 0, 1),
     "stride": L(2, 1, 2), "dilation": L(2, 1, 1), "groups": I("g", "g", always=True)}, dtypes="halffloat", mixed=0,
     sizes={"k": (1, 3), "kw": (1, 3), "h": (3, 6), "w": (3, 6), "o": (1, 3), "c": (1, 3)})  # fmt: skip
rule("thnn_conv2d", args=_SLOW, dtypes="wide", mixed=2, sizes=_SLOW_SIZES)
rule("conv_tbc_backward", args={"self": T("t n o"), "input": T("t n c", "same"), "weight": T("1 c o", "same"), "bias": T("o", "same"), "pad": I(0, 0)},
     dtypes="wide", mixed=0, wild=0, sizes={"t": (1, 4), "o": (1, 3)})  # fmt: skip

rule(
    "_linalg_check_errors",
    args={"info": T("n", "int32", (0, 1)), "api_name": C(("linalg.inv", "linalg.eigh")), "is_matrix": C((False,))},
    mixed=0,
    wild=0,
)

# ---------------------------------------------------------------- prims

rule("prims::scalar_tensor", always=frozenset(["dtype", "device"]),
     args={"dtype": C((Named("dtype", "float32"), Named("dtype", "int64")), always=True), "device": C((Named("device", "cpu"),), always=True)})  # fmt: skip
rule("prims::zeta", dtypes="wide", values="positive")
rule("prims::where", args={"pred": T("any", "bool"), "a": T("like"), "b": T("like", "same")}, mixed=2)
rule("prims::transpose", args={"permutation": lambda c: list(c._draw(st.permutations(range(len(c.shape)))))})
rule(
    "prims::squeeze",
    args={"self": T("n 1 m 1"), "a": T("n 1 m 1"), "dimensions": C(([1], [3], [1, 3], [])), "dims": C(([1], [3]))},
)
rule(
    "prims::broadcast_in_dim",
    args={"a": T("n ~m"), "shape": lambda c: [c.size("n"), 2, c.size("m")], "broadcast_dimensions": C(([0, 2],))},
)
rule(
    "prims::empty_strided",
    args={"shape": lambda c: [c.size("n"), c.size("m")], "strides": lambda c: [max(1, c.size("m")), 1]},
)

rule("prims::bitwise_* prims::shift_*", dtypes="int")
rule("prims::conj prims::conj_physical prims::real prims::imag", dtypes="complex")
rule(
    "prims::fft_*",
    args={"self": T("n m"), "dim": C(([1], [0, 1])), "last_dim_size": I("2*m-2", "2*m-1")},
    values="tame",
    sizes={"m": (2, 4)},
)
rule("prims::fft_c2c prims::fft_c2r", dtypes="complex")
rule("prims::fft_r2c", dtypes="wide")
rule("prims::split_dim", args={"a": T("n 6"), "dim": C((1,)), "outer_length": C((1, 2, 3, 6))})
rule("prims::var", dtypes="float", always=frozenset(["correction"]))
rule("prims::scalar_tensor", always=frozenset(["dtype", "device"]), args={"dtype": lambda c: c.named(c.dtype)})
rule(
    "prims::iota",
    args={
        "length": I(0, 5),
        "start": I(-2, 2),
        "step": I(1, 3),
        "dtype": lambda c: c.named("int64"),
        "requires_grad": C((False,)),
    },
)
rule("prims::item", args={"a": T("")})
