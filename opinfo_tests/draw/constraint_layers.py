"""The constraint rows of convolutions, pools, norms, losses and resampling; `constraints` says how they are read."""

from __future__ import annotations

from . import constraint_matrices  # noqa: F401  the rows here come over those
from .constraints import C, I, L, T, rule, sizes

# ---------------------------------------------------------------- convolutions and pools

CONV_SIZES = {
    "k": (1, 3),
    "kw": (1, 3),
    "kd": (1, 2),
    "h": (3, 6),
    "w": (3, 6),
    "d": (2, 4),
    "o": (1, 3),
    "c": (1, 3),
    "g": (1, 2),
}


def conv(n: int, transposed: bool = False) -> dict:
    space = {1: "h", 2: "h w", 3: "d h w"}[n]
    kernel = {1: "k", 2: "k kw", 3: "kd k kw"}[n]
    weight = f"g*c o {kernel}" if transposed else f"g*o c {kernel}"
    return {
        "input": T(f"n g*c {space}"), "weight": T(weight, "same"), "bias": T("g*o", "same"), "stride": L(n, 1, 3), "padding": L(n, 0, 2),
        "dilation": L(n, 1, 1), "groups": I("g", "g", always=True), "output_padding": L(n, 0, 0),
    }  # fmt: skip


GROUPS = {
    "sizes": CONV_SIZES,
    "always": frozenset(["groups", "stride", "padding", "dilation", "output_padding", "bias"]),
}
for _n in (1, 2, 3):
    rule(f"conv{_n}d", args=conv(_n), **GROUPS)
    rule(f"conv{_n}d.padding", args={**conv(_n), "padding": C(("same", "valid")), "stride": L(_n, 1, 1)}, **GROUPS)
    rule(f"conv_transpose{_n}d*", args=conv(_n, transposed=True), **GROUPS)
rule(
    "convolution _convolution* convolution_overrideable",
    args={**conv(2), "transposed": C((False,)), "benchmark": C((False,)), "deterministic": C((False,))},
    **GROUPS,
)
rule("_convolution_mode", args={**conv(2), "padding": C(("same", "valid")), "stride": L(2, 1, 1)}, **GROUPS)
rule("convolution_backward", args={**conv(2), "grad_output": T("n g*o h w"), "input": T("n g*c h w", "same"), "weight": T("g*o c 3 3", "same"),
     "stride": L(2, 1, 1), "padding": L(2, 1, 1), "transposed": C((False,)), "bias_sizes": lambda c: [c.value("g*o")]}, **GROUPS)  # fmt: skip
rule(
    "conv_tbc",
    args={"self": T("h n c"), "weight": T("k c o", "same"), "bias": T("o", "same"), "pad": I(0, 2)},
    **GROUPS,
)

POOL_SIZES = {"h": (3, 7), "w": (3, 7), "d": (3, 5)}
for _n, _space in ((1, "h"), (2, "h w"), (3, "d h w")):
    _args = {"self": T(f"n? c {_space}"), "kernel_size": L(_n, 1, 3), "stride": L(_n, 1, 3), "padding": L(_n, 0, 0), "dilation": L(_n, 1, 1),
             "output_size": L(_n, 1, 4), "divisor_override": C((None, 2, 5))}  # fmt: skip
    rule(f"*pool{_n}d*", args=_args, sizes=POOL_SIZES, always=frozenset(["stride"]))
rule("avg_pool?d_backward", args={"kernel_size": L("ndim-2", 2, 2), "stride": L("ndim-2", 2, 2)}, sizes=POOL_SIZES)
rule(
    "avg_pool2d_backward",
    args={
        "self": T("n c 4 6", "same"),
        "grad_output": T("n c 2 3"),
        "kernel_size": C(([2, 2],)),
        "stride": C(([2, 2],)),
        "padding": C(([0, 0],)),
        "ceil_mode": C((False,)),
    },
)
rule(
    "avg_pool3d_backward",
    args={
        "self": T("n c 4 2 6", "same"),
        "grad_output": T("n c 2 1 3"),
        "kernel_size": C(([2, 2, 2],)),
        "stride": C(([2, 2, 2],)),
        "padding": C(([0, 0, 0],)),
        "ceil_mode": C((False,)),
    },
)
rule(
    "max_pool2d_with_indices_backward",
    args={
        "self": T("n c 4 6", "same"),
        "grad_output": T("n c 2 3"),
        "indices": T("n c 2 3", "int64", (0, 23)),
        "kernel_size": C(([2, 2],)),
        "stride": C(([2, 2],)),
        "padding": C(([0, 0],)),
        "dilation": C(([1, 1],)),
        "ceil_mode": C((False,)),
    },
)
rule(
    "max_pool3d_with_indices_backward",
    args={
        "self": T("n c 4 2 6", "same"),
        "grad_output": T("n c 2 1 3"),
        "indices": T("n c 2 1 3", "int64", (0, 47)),
        "kernel_size": C(([2, 2, 2],)),
        "stride": C(([2, 2, 2],)),
        "padding": C(([0, 0, 0],)),
        "dilation": C(([1, 1, 1],)),
        "ceil_mode": C((False,)),
    },
)
rule(
    "adaptive_max_pool2d_backward",
    args={"self": T("n c h w", "same"), "grad_output": T("n c 2 3"), "indices": T("n c 2 3", "int64", (0, "h*w-1"))},
    sizes=POOL_SIZES,
)
rule(
    "adaptive_max_pool3d_backward",
    args={
        "self": T("n c d h w", "same"),
        "grad_output": T("n c 2 3 1", layout="c"),
        "indices": T("n c 2 3 1", "int64", (0, "d*h*w-1"), layout="c"),
    },
    sizes=POOL_SIZES,
)
rule(
    "_adaptive_avg_pool2d_backward", args={"self": T("n c h w", "same"), "grad_output": T("n c 2 3")}, sizes=POOL_SIZES
)
rule(
    "_adaptive_avg_pool3d_backward",
    args={"self": T("n c d h w", "same"), "grad_output": T("n c 2 3 1")},
    sizes=POOL_SIZES,
)
rule(
    "constant_pad_nd pad",
    args={"self": T("n m c?"), "pad": lambda c: [c.integer(-1, 2) for _ in range(2 * c.integer(1, 2))]},
    always=frozenset(["value"]),
)
for _n, _space in ((1, "h"), (2, "h w"), (3, "d h w")):
    rule(
        f"reflection_pad{_n}d replication_pad{_n}d",
        args={"self": T(f"n? c {_space}"), "padding": L(2 * _n, 0, 2)},
        sizes=POOL_SIZES,
        dtypes="float",
    )
rule("upsample_*1d*", args={"self": T("n c h"), "output_size": L(1, 1, 6)}, dtypes="float")
rule("upsample_*2d* _upsample_*2d*", args={"self": T("n c h w"), "output_size": L(2, 1, 6)}, dtypes="float")
rule("upsample_*3d* _upsample_*3d*", args={"self": T("n c d h w"), "output_size": L(3, 1, 4)}, dtypes="float")
rule(
    "im2col",
    args={
        "self": T("n? c h w"),
        "kernel_size": L(2, 1, 2),
        "dilation": L(2, 1, 1),
        "padding": L(2, 0, 1),
        "stride": L(2, 1, 2),
    },
    sizes=POOL_SIZES,
    dtypes="float",
)
rule(
    "grid_sampler_2d grid_sampler",
    args={"input": T("n c h w"), "grid": T("n 2 3 2", "same"), "interpolation_mode": I(0, 2), "padding_mode": I(0, 2)},
    dtypes="wide",
)

# ---------------------------------------------------------------- norms and losses

PER_CHANNEL = {
    "weight": T("c", "same"),
    "bias": T("c", "same"),
    "running_mean": T("c", "same", "tame"),
    "running_var": T("c", "same", "positive"),
}
rule("*batch_norm* _batch_norm_impl_index instance_norm", args={"input": T("n c h?"), **PER_CHANNEL, "cudnn_enabled": C((False,)),
     "momentum": C((0.1, 0.5)), "train": C((True, False)), "training": C((True, False))}, mixed=0)  # fmt: skip
rule("_native_batch_norm_legit_functional _batch_norm_with_update_functional _batch_norm_no_update _native_batch_norm_legit_no_training", args={
    k: T(v.shape, v.dtype, v.values, always=True) for k, v in PER_CHANNEL.items()})  # fmt: skip
rule("instance_norm", args={"input": T("n c h"), "use_input_stats": C((True,))})
rule("batch_norm_backward native_batch_norm_backward", args={"grad_out": T("n c h"), "input": T("n c h", "same"), "save_mean": T("c", "same"),
     "save_invstd": T("c", "same", "positive"), "save_var": T("c", "same", "positive"), "reserve": T("0", "uint8"), "update": C((True, False))})  # fmt: skip
rule(
    "layer_norm native_layer_norm rms_norm _fused_rms_norm",
    args={"input": T("n m c"), "normalized_shape": C(([],)), "weight": T("c", "same"), "bias": T("c", "same")},
)
rule(
    "layer_norm native_layer_norm rms_norm _fused_rms_norm native_layer_norm_backward",
    args={"normalized_shape": lambda c: list(c.shape[-1:])},
    sizes={"n": (1, 3), "m": (1, 4), "c": (1, 4)},
)
rule("native_layer_norm_backward", args={"grad_out": T("n m c"), "input": T("n m c", "same"), "mean": T("n m 1", "same", "tame"), "rstd": T("n m 1", "same", "positive"),
     "weight": T("c", "same"), "bias": T("c", "same")})  # fmt: skip
rule("group_norm native_group_norm", args={"input": T("n g*c h"), "num_groups": I("g", "g"), "weight": T("g*c", "same"), "bias": T("g*c", "same"),
     "N": I("n", "n"), "C": I("g*c", "g*c"), "HxW": I("h", "h"), "group": I("g", "g")})  # fmt: skip
rule("native_group_norm_backward", args={"grad_out": T("n g*c h"), "input": T("n g*c h", "same"), "mean": T("n g", "same", "tame"), "rstd": T("n g", "same", "positive"),
     "weight": T("g*c", "same"), "N": I("n", "n"), "C": I("g*c", "g*c"), "HxW": I("h", "h"), "group": I("g", "g")})  # fmt: skip
rule(
    "_weight_norm _weight_norm_interface",
    args={"v": T("n m"), "g": T("n 1", "same", "positive"), "dim": C((0,))},
    dtypes="wide",
)
rule(
    "_weight_norm_interface_backward",
    args={
        "grad_w": T("n m"),
        "saved_v": T("n m", "same"),
        "saved_g": T("n 1", "same"),
        "saved_norms": T("n 1", "same", "positive"),
        "dim": C((0,)),
    },
    dtypes="wide",
)
NLL = {"self": T("n c"), "target": T("n", "int64", (0, "c-1")), "weight": T("c", "same"), "total_weight": T("", "same", "positive"), "label_smoothing": C((0.0, 0.1)),
       "grad_output": T("", "same")}  # fmt: skip
rule("cross_entropy_loss nll_loss nll_loss_nd nll_loss_forward nll_loss_backward", args=NLL, sizes={"n": (1, 3)})
rule("nll_loss_backward", args={"grad_output": T(""), "self": T("n c", "same"), "reduction": I(1, 2)})
rule(
    "nll_loss2d*",
    args={**NLL, "self": T("n c h w"), "target": T("n h w", "int64", (0, "c-1"))},
    sizes={"h": (1, 3), "w": (1, 3)},
)
rule("nll_loss2d_backward", args={"grad_output": T(""), "self": T("n c h w", "same"), "reduction": I(1, 2)})
rule(
    "binary_cross_entropy binary_cross_entropy_backward",
    args={"self": T("any", "main", "unit"), "target": T("like", "same", "unit"), "weight": T("like", "same")},
)
rule("binary_cross_entropy_backward", args={"grad_output": T("any"), "self": T("like", "same", "unit")})
rule("binary_cross_entropy_with_logits mse_loss l1_loss huber_loss smooth_l1_loss soft_margin_loss* kl_div poisson_nll_loss mse_loss_backward "
     "huber_loss_backward smooth_l1_loss_backward", args={"target": T("like", "same"), "weight": T("like", "same"), "pos_weight": T("like", "same")})  # fmt: skip
rule(
    "mse_loss_backward huber_loss_backward smooth_l1_loss_backward soft_margin_loss_backward",
    args={"grad_output": T("any"), "self": T("like", "same")},
)
rule("margin_ranking_loss", args={"input1": T("n"), "input2": T("n", "same"), "target": T("n", "same")})
rule("cosine_embedding_loss", args={"input1": T("n c"), "input2": T("n c", "same"), "target": T("n", "int64", (-1, 1))})
rule(
    "triplet_margin_loss",
    args={"anchor": T("n c"), "positive": T("n c", "same"), "negative": T("n c", "same"), "p": C((2.0, 1.0))},
)
rule(
    "pairwise_distance cosine_similarity",
    args={"x1": T("n c"), "x2": T("n c", "same"), "p": C((2.0, 1.0)), "dim": C((1, -1))},
)
rule("hinge_embedding_loss", args={"target": T("like", "same")})

# ---------------------------------------------------------------- resampling and padding

for _n, _space in ((1, "h"), (2, "h w"), (3, "d h w")):
    _names = f"upsample_*{_n}d _upsample_*{_n}d upsample_*{_n}d_aa _upsample_*{_n}d_aa"
    _small = {"h": (1, 4), "w": (1, 4), "d": (1, 3)}
    rule(
        _names,
        args={"self": T(f"n c {_space}"), "input": T(f"n c {_space}"), "output_size": L(_n, 1, 5)},
        dtypes="float",
        mixed=0,
        sizes=_small,
    )
    _vec = " ".join(f"{name}.vec" for name in _names.split())
    rule(_vec, args={"scale_factors": C((None,)), "output_size": L(_n, 1, 5, always=True)})
    _back = " ".join(f"{name}_backward" for name in _names.split())
    _out = {1: "3", 2: "3 4", 3: "2 3 4"}[_n]
    rule(
        _back,
        args={
            "grad_output": T(f"n c {_out}"),
            "output_size": C(([int(x) for x in _out.split()],)),
            "input_size": sizes(f"n c {_space}"),
        },
        dtypes="float",
        sizes=_small,
    )
    _padded = {1: "h+2", 2: "h+2 w+2", 3: "d+2 h+2 w+2"}[_n]
    rule(f"reflection_pad{_n}d_backward replication_pad{_n}d_backward", args={"grad_output": T(f"n c {_padded}"), "self": T(f"n c {_space}", "same"),
         "padding": C(([1] * (2 * _n),))}, dtypes="float", sizes={"h": (2, 5), "w": (2, 5), "d": (2, 3)})  # fmt: skip
rule(
    "_pad_enum",
    args={"self": T("n c h"), "pad": L(2, 0, 1), "mode": I(0, 3), "value": C((None, 1.5))},
    dtypes="float",
    sizes={"h": (3, 5)},
)
rule(
    "affine_grid_generator",
    args={"theta": T("n 2 3"), "size": sizes("n c h w")},
    dtypes="wide",
    sizes={"h": (1, 3), "w": (1, 3)},
)
rule(
    "affine_grid_generator_backward",
    args={"grad": T("n h w 2"), "size": sizes("n c h w")},
    dtypes="wide",
    sizes={"h": (1, 3), "w": (1, 3)},
)
GRID = {"input": T("n c h w"), "grid": T("n 2 3 2", "same"), "interpolation_mode": I(0, 2), "padding_mode": I(0, 2)}
rule("_grid_sampler_2d_cpu_fallback grid_sampler_2d", args=GRID, dtypes="wide", values="tame", wild=0)
rule(
    "grid_sampler_2d_backward _grid_sampler_2d_cpu_fallback_backward",
    args={**GRID, "grad_output": T("n c 2 3"), "input": T("n c h w", "same")},
    dtypes="wide",
    values="tame",
    wild=0,
)
# Along one pixel the slope is 0 times the sum of the cubic weights' slopes: 0 or -0, as the sum is rounded.
rule("_grid_sampler_2d_cpu_fallback_backward", sizes={"h": (2, 5), "w": (2, 5)})
rule(
    "grid_sampler_3d",
    args={
        "input": T("n c d h w"),
        "grid": T("n 2 3 1 3", "same"),
        "interpolation_mode": I(0, 1),
        "padding_mode": I(0, 2),
    },
    dtypes="wide",
    values="tame",
    wild=0,
)
rule(
    "grid_sampler_3d_backward",
    args={
        "grad_output": T("n c 2 3 1", layout="c"),
        "input": T("n c d h w", "same"),
        "grid": T("n 2 3 1 3", "same"),
        "interpolation_mode": I(0, 1),
        "padding_mode": I(0, 2),
    },
    dtypes="wide",
    values="tame",
    wild=0,
)
rule(
    "col2im",
    args={
        "self": T("n c*4 6"),
        "output_size": C(([3, 4],)),
        "kernel_size": C(([2, 2],)),
        "dilation": C(([1, 1],)),
        "padding": C(([0, 0],)),
        "stride": C(([1, 1],)),
    },
    dtypes="float",
)
