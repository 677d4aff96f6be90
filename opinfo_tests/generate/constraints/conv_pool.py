"""Constraints of slow and oneDNN convolutions, and of rarer pooling; see `opinfo_tests.generate.constraints.constraint`."""

from __future__ import annotations

import math

from ..windows import CONVOLUTIONS, DENSE, numbers, over, windows_of
from .constraint import C, ConstraintRule, I, L, T, rule, sizes


def slow(n: int, transposed: bool = False, dilated: bool = False) -> dict:
    kind = CONVOLUTIONS[n] if dilated or transposed else DENSE[n]
    names = ("kernel_size", "stride", "padding", "dilation", "output_padding")
    weight = over(kind, "c o" if transposed else "o c", "kernel_size", dtype="same")
    args = {"self": over(kind, "n c"), "weight": weight, "bias": T("o", "same"), **numbers(kind, *names)}
    return args | {"kernel_size": lambda c: list(c.arrays[1].shape[2:])}


_SLOW_SIZES = {"o": (1, 3), "c": (1, 3)}
_BACK = {**_SLOW_SIZES, "transposed": (1, 1)}
_WINDOW = {"always": frozenset(["stride", "padding", "dilation", "output_padding"])}


def fractional_gradient(whole: str, pooled: list[int]) -> ConstraintRule:
    n, left = len(pooled), " ".join(map(str, pooled))
    args = {
        "grad_output": T(f"n c {left}"),
        "self": T(f"n c {whole}", "same"),
        "kernel_size": C(([2] * n,)),
        "output_size": C((pooled,)),
        "indices": T(f"n c {left}", "int64", (0, math.prod(map(int, whole.split())) - 1)),
    }
    return rule(f"fractional_max_pool{n}d_backward", args=args, dtypes="wide", wild=0)


ROWS = (
    # Sums of infinities, and of large terms that cancel, depend on the order of additions.
    rule("_slow_conv2d* slow_conv* thnn_conv2d", values="tame"),
    # torch does not compare the filter with kernel_size, and for a negative padding reads wrong columns.
    rule("slow_conv_dilated?d", unchecked=frozenset(["padding"])),
    rule(
        "_slow_conv2d_forward slow_conv_transpose?d slow_conv3d* thnn_conv2d",
        unchecked=frozenset(["weight", "kernel_size", "padding", "output_padding"]),
    ),
    rule(
        "_slow_conv2d_backward",
        unchecked=frozenset(["grad_output", "self", "weight", "kernel_size", "stride", "padding"]),
    ),
    rule("_slow_conv2d_forward", args=slow(2), dtypes="wide", mixed=2, sizes=_SLOW_SIZES, **_WINDOW),
    rule("slow_conv3d slow_conv3d_forward", args=slow(3), dtypes="wide", mixed=2, sizes=_SLOW_SIZES, **_WINDOW),
    *(
        row
        for n in (2, 3)
        for row in (
            rule(
                f"slow_conv_dilated{n}d",
                args=slow(n, dilated=True),
                dtypes="wide",
                mixed=2,
                sizes=_SLOW_SIZES,
                **_WINDOW,
            ),
            rule(f"slow_conv_transpose{n}d", args=slow(n, True), dtypes="wide", mixed=2, sizes=_BACK, **_WINDOW),
        )
    ),
    rule(
        "_slow_conv2d_backward",
        args={
            **slow(2),
            "grad_output": over(DENSE[2], "n o", "out"),
            "self": over(DENSE[2], "n c", dtype="same", layout="c"),  # for other layouts torch reads wrong columns
            "kernel_size": lambda c: windows_of(c, DENSE[2]).kernel_size,
        },
        dtypes="wide",
        mixed=0,
        wild=0,
        sizes=_SLOW_SIZES,
    ),
    rule(
        "max_unpool2d",
        args={"self": T("n? c 2 3"), "indices": T("n? c 2 3", "int64", (0, "p*q-1")), "output_size": sizes("p q")},
        dtypes="float",
        sizes={"p": (2, 5), "q": (3, 6)},
        wild_values=False,
    ),
    rule(
        "max_unpool3d",
        args={
            "self": T("n? c 1 2 3"),
            "indices": T("n? c 1 2 3", "int64", (0, "o*p*q-1")),
            "output_size": sizes("o p q"),
            "stride": L(3, 1, 3),
            "padding": L(3, 0, 1),
        },
        dtypes="float",
        sizes={"o": (1, 3), "p": (2, 5), "q": (3, 6)},
        wild_values=False,
    ),
    *(
        rule(
            f"fractional_max_pool{n}d",
            args={
                "self": T(f"n? c {space}"),
                "kernel_size": L(n, 1, 2),
                "output_size": L(n, 1, 3),
                "random_samples": T(f"n+x c {n}", "same", "unit"),
            },
            dtypes="wide",
            sizes={"x": (0, 1)},
            wild=4,
        )
        for n, space in ((2, "5 6"), (3, "4 5 6"))
    ),
    fractional_gradient("5 6", [2, 3]),
    fractional_gradient("4 5 6", [2, 2, 3]),
    rule(
        "mkldnn_convolution",
        args={
            "self": over(CONVOLUTIONS[2], "n g*c"),
            "weight": over(CONVOLUTIONS[2], "g*o c", "kernel_size", dtype="same"),
            # oneDNN reads it as contiguous, whatever its strides; integer results have a float32 bias
            "bias": lambda c: c.array(T("g*o", c.choose(("same", "float32")), layout="c")),
            "groups": I("g", "g", always=True),
            **numbers(CONVOLUTIONS[2], "padding", "stride", "dilation"),
        },
        dtypes="densely",
        mixed=0,
        sizes=_SLOW_SIZES,
        # For channels-last bfloat16, oneDNN reads beyond the image if the padding is larger than the window.
        dies=lambda case: any(p > k for p, k in zip(case.args[3], case.arrays()[1].shape[2:])),
    ),
    rule("thnn_conv2d", args=slow(2), dtypes="wide", mixed=2, sizes=_SLOW_SIZES, **_WINDOW),
    rule(
        "conv_tbc_backward",
        args={
            "self": T("t+2*p-k+1 n o"),
            "input": T("t n c", "same"),
            "weight": T("k c o", "same"),
            "bias": T("o", "same"),
            "pad": I("p", "p"),
        },
        dtypes="wide",
        mixed=0,
        wild=0,
        sizes={"t": (3, 5), "o": (1, 3), "k": (1, 3), "p": (0, 2)},
    ),
)
