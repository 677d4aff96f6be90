"""The constraint rows of convolutions and pools by another name; `constraints` says how they are read."""

from __future__ import annotations

import math

from .constraints import C, I, L, Rule, T, rule, sizes

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


def fractional_gradient(whole: str, pooled: list[int]) -> Rule:
    n, left = len(pooled), " ".join(map(str, pooled))
    args = {
        "grad_output": T(f"n c {left}"),
        "self": T(f"n c {whole}", "same"),
        "kernel_size": C(([2] * n,)),
        "output_size": C((pooled,)),
        "indices": T(f"n c {left}", "int64", (0, math.prod(map(int, whole.split())) - 1)),
    }
    return rule(f"fractional_max_pool{n}d_backward", args=args, dtypes="wide", wild=0)


_TORCH_DIES = {"wild": 0, "mixed": 0, "wild_values": False}  # of arguments that oneDNN does not take
_CELL = {"input": T("t b i", "float32", "tame", layout="c"), "reverse": C((False, True)), "batch_sizes": C(([],)), "mode": C((2,)),
         **{f"weight{i}": T(shape, "float32", "tame", layout="c") for i, shape in enumerate(("4*k i", "4*k k", "4*k", "4*k"))},
         "hx_": T("b k", "float32", "tame", layout="c"), "cx_": T("b k", "float32", "tame", layout="c"),
         "hidden_size": lambda c: c.size("k"), "num_layers": C((1,)), "train": C((False,))}  # fmt: skip

# Gates of other shapes than the states' make torch read beyond its memory.
_LSTM_GRADS = {"grad_hy": T("b k"), "grad_cy": T("b k", "same"), "input_gates": T("b 4*k", "same"),
               "hidden_gates": T("b 4*k", "same"), "input_bias": T("4*k", "same"), "hidden_bias": T("4*k", "same"),
               "cx": T("b k", "same"), "cy": T("b k", "same")}  # fmt: skip
_GRU_GRADS = {"grad_hy": T("b k", layout="c"), "input_gates": T("b 3*k", "same"), "hidden_gates": T("b 3*k", "same"),
              "hx": T("b k", "same"), "input_bias": T("3*k", "same"), "hidden_bias": T("3*k", "same")}  # fmt: skip
_GATES = {"wild": 0, "mixed": 0, "sizes": dict.fromkeys("bk", (1, 4))}

ROWS = (
    rule("_thnn_differentiable_lstm_cell_backward", args=_LSTM_GRADS, dtypes="halffloat", **_GATES),
    rule("_thnn_differentiable_gru_cell_backward", args=_GRU_GRADS, dtypes="halffloat", **_GATES),
    rule("mkldnn_rnn_layer", args=_CELL, sizes=dict.fromkeys("tbik", (1, 4)), **_TORCH_DIES),
    # Sums of infinities, and of large terms that cancel, are by the order of additions.
    rule("_slow_conv2d* slow_conv* thnn_conv2d", values="tame"),
    # torch does not compare the filter with the window's sizes, and reads the wrong columns for a negative padding.
    rule("slow_conv_dilated?d", unchecked=frozenset(["padding"])),
    rule(
        "_slow_conv2d_forward slow_conv_transpose?d slow_conv3d* thnn_conv2d",
        unchecked=frozenset(["weight", "kernel_size", "padding", "output_padding"]),
    ),
    rule(
        "_slow_conv2d_backward",
        unchecked=frozenset(["grad_output", "self", "weight", "kernel_size", "stride", "padding"]),
    ),
    rule("slow_conv_dilated2d _slow_conv2d_forward", args=_SLOW, dtypes="wide", mixed=2, sizes=_SLOW_SIZES),
    rule("slow_conv3d slow_conv3d_forward slow_conv_dilated3d", args=_SLOW3, dtypes="wide", mixed=2, sizes=_SLOW_SIZES),
    rule(
        "slow_conv_transpose2d",
        args={**_SLOW, "weight": T("c o k kw", "same")},
        dtypes="wide",
        mixed=2,
        sizes=_SLOW_SIZES,
    ),
    rule(
        "slow_conv_transpose3d",
        args={**_SLOW3, "weight": T("c o kd k kw", "same")},
        dtypes="wide",
        mixed=2,
        sizes=_SLOW_SIZES,
    ),
    rule(
        "_slow_conv2d_backward",
        args={
            **_SLOW,
            "grad_output": T("n o h-k+1 w-kw+1"),
            "self": T("n c h w", "same"),
            "kernel_size": sizes("k kw"),
            "stride": L(2, 1, 1),
            "padding": L(2, 0, 0),
        },
        dtypes="wide",
        mixed=2,
        sizes=_SLOW_SIZES,
    ),
    rule(
        "max_unpool2d",
        args={"self": T("n c 2 3"), "indices": T("n c 2 3", "int64", (0, 23)), "output_size": C(([4, 6],))},
        dtypes="float",
        wild_values=False,
    ),
    rule(
        "max_unpool3d",
        args={
            "self": T("n c 1 2 3"),
            "indices": T("n c 1 2 3", "int64", (0, 47)),
            "output_size": C(([2, 4, 6],)),
            "stride": C(([2, 2, 2],)),
            "padding": C(([0, 0, 0],)),
        },
        dtypes="float",
        wild_values=False,
    ),
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
    ),
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
    ),
    fractional_gradient("5 6", [2, 3]),
    fractional_gradient("4 5 6", [2, 2, 3]),
    rule(
        "mkldnn_convolution",
        args={
            "self": T("n g*c h w"),
            "weight": T("g*o c k kw", "same"),
            "bias": T("g*o", "same", layout="c"),  # oneDNN reads it as one run of memory, whatever its strides
            "padding": L(2, 0, 1),
            "stride": L(2, 1, 2),
            "dilation": L(2, 1, 1),
            "groups": I("g", "g", always=True),
        },
        dtypes="halffloat",
        mixed=0,
        sizes={"k": (1, 3), "kw": (1, 3), "h": (3, 6), "w": (3, 6), "o": (1, 3), "c": (1, 3)},
    ),
    rule("thnn_conv2d", args=_SLOW, dtypes="wide", mixed=2, sizes=_SLOW_SIZES),
    rule(
        "conv_tbc_backward",
        args={
            "self": T("t n o"),
            "input": T("t n c", "same"),
            "weight": T("1 c o", "same"),
            "bias": T("o", "same"),
            "pad": I(0, 0),
        },
        dtypes="wide",
        mixed=0,
        wild=0,
        sizes={"t": (1, 4), "o": (1, 3)},
    ),
)
