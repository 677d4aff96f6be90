"""The constraint rows of convolutions, pools, resampling and padding; `constraints` says how they are read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .constraints import C, D, I, L, Rule, T, rule, sizes

SPACES = ((1, "h"), (2, "h w"), (3, "d h w"))
GRID = {
    "input": T("n c h w"),
    "grid": T("n 2 3 2", "same"),
    "interpolation_mode": C((0, 1, 2)),
    "padding_mode": C((0, 1, 2)),
}
GRID3 = {**GRID, "input": T("n c d h w"), "grid": T("n 2 3 1 3", "same"), "interpolation_mode": I(0, 1)}
TAME: dict[str, Any] = {"dtypes": "wide", "values": "tame", "wild": 0}

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
POOL_SIZES = {"h": (3, 7), "w": (3, 7), "d": (3, 5)}


def either_way(kernel: str, values: str = "any") -> Callable:
    """Return a draw of the weight of a convolution, or of a transposed one."""
    return lambda c: c.array(T(f"{'g*c o' if c.size('transposed') else 'g*o c'} {kernel}", "same", values))


# In half precision torch rounds some sums before it adds the bias, which shows beside an infinite one.
EITHER_WAY = {
    "weight": either_way("k kw"),
    "bias": T("g*o", "same", "tame"),
    "transposed": lambda c: bool(c.size("transposed")),
}


def convolutions(n: int) -> tuple[Rule, ...]:
    return (
        rule(f"conv{n}d", args=conv(n), **GROUPS),
        rule(f"conv{n}d.padding", args={**conv(n), "padding": C(("same", "valid")), "stride": L(n, 1, 1)}, **GROUPS),
        rule(f"conv_transpose{n}d*", args=conv(n, transposed=True), **GROUPS),
    )


def pools(n: int, space: str) -> Rule:
    args = {
        "self": T(f"n? c {space}"),
        "kernel_size": L(n, 1, 3),
        "stride": L(n, 1, 3),
        "padding": L(n, 0, 2),
        "dilation": L(n, 1, 2),
        "output_size": L(n, 1, 4),
        "divisor_override": C((None, 2, 5)),
    }
    return rule(f"*pool{n}d*", args=args, sizes=POOL_SIZES, always=frozenset(["stride"]))


def pool_gradients(whole: str, halved: str) -> tuple[Rule, ...]:
    """Windows of 2 over sizes that are known, as a gradient has the size that its pool gave."""
    n = len(whole.split())
    window = {
        "self": T(f"n c {whole}", "same"),
        "grad_output": T(f"n c {halved}"),
        "kernel_size": C(([2] * n,)),
        "stride": C(([2] * n,)),
        "padding": C(([0] * n,)),
        "ceil_mode": C((False,)),
    }
    places = math.prod(map(int, whole.split()))
    found = {"indices": T(f"n c {halved}", "int64", (0, places - 1)), "dilation": C(([1] * n,))}
    return (
        rule(f"avg_pool{n}d_backward", args=window, unchecked=frozenset(["grad_output", "self"])),
        rule(f"max_pool{n}d_with_indices_backward", args=window | found),
    )


def pads(n: int, space: str) -> Rule:
    args = {"self": T(f"n? c {space}"), "padding": L(2 * n, 0, 2)}
    return rule(f"reflection_pad{n}d replication_pad{n}d", args=args, sizes=POOL_SIZES, dtypes="float")


CONVOLUTIONS_AND_POOLS = (
    *(row for n in (1, 2, 3) for row in convolutions(n)),
    rule(
        "convolution _convolution* convolution_overrideable",
        args={**conv(2), **EITHER_WAY},
        sizes={**CONV_SIZES, "transposed": (0, 1)},
        always=GROUPS["always"],
    ),
    rule("_convolution_mode", args={**conv(2), "padding": C(("same", "valid")), "stride": L(2, 1, 1)}, **GROUPS),
    rule(
        "convolution_backward",
        args={
            **conv(2),
            "grad_output": T("n g*o h w"),
            "input": T("n g*c h w", "same"),
            "weight": T("g*o c 3 3", "same"),
            "stride": L(2, 1, 1),
            "padding": L(2, 1, 2),
            "dilation": lambda c: list(c.held["padding"]),  # of a filter of 3, which leaves the size as it is
            "transposed": C((False,)),
            "bias_sizes": D(lambda c: [c.value("g*o")]),  # of an empty input torch reads it, given or not
        },
        unchecked=frozenset(["grad_output"]),
        **GROUPS,
    ),
    rule(
        "_convolution_double_backward",  # autograd calls it with what a convolution was given; sums of infinities have an order
        args={
            **conv(2),
            "ggI": T("n g*c h w", values="tame"),
            "ggW": either_way("3 3", "tame"),
            "ggb": T("g*o", "same", "tame"),
            "gO": T("n g*o h w", "same", "tame"),
            "weight": either_way("3 3", "tame"),
            "self": T("n g*c h w", "same", "tame"),
            "stride": L(2, 1, 1),
            "padding": L(2, 1, 1),
            "transposed": EITHER_WAY["transposed"],
        },
        dtypes="wide",
        mixed=0,
        wild=0,
        sizes={**CONV_SIZES, "transposed": (0, 1)},
        always=GROUPS["always"],
    ),
    rule(
        "conv_tbc",
        args={"self": T("h n c"), "weight": T("k c o", "same"), "bias": T("o", "same"), "pad": I(0, 2)},
        **GROUPS,
    ),
    *(pools(n, space) for n, space in SPACES),
    rule("avg_pool?d_backward", args={"kernel_size": L("ndim-2", 2, 2), "stride": L("ndim-2", 2, 2)}, sizes=POOL_SIZES),
    *pool_gradients("4 6", "2 3"),
    *pool_gradients("4 2 6", "2 1 3"),
    rule(
        "adaptive_max_pool2d_backward",
        args={
            "self": T("n c h w", "same"),
            "grad_output": T("n c 2 3"),
            "indices": T("n c 2 3", "int64", (0, "h*w-1")),
        },
        sizes=POOL_SIZES,
    ),
    rule(
        "adaptive_max_pool3d_backward",
        args={
            "self": T("n c d h w", "same"),
            "grad_output": T("n c 2 3 1", layout="c"),
            "indices": T("n c 2 3 1", "int64", (0, "d*h*w-1"), layout="c"),
        },
        sizes=POOL_SIZES,
    ),
    rule(
        "_adaptive_avg_pool2d_backward",  # torch does not compare batches and channels, and writes beyond the smaller
        args={"self": T("n c h w", "same"), "grad_output": T("n c 2 3")},
        sizes=POOL_SIZES,
        wild=0,
    ),
    rule(
        "_adaptive_avg_pool3d_backward",
        args={"self": T("n c d h w", "same"), "grad_output": T("n c 2 3 1")},
        sizes=POOL_SIZES,
        wild=0,
    ),
    rule(
        "constant_pad_nd pad",
        args={"self": T("n m c?"), "pad": lambda c: [c.integer(-1, 2) for _ in range(2 * c.integer(1, 2))]},
        always=frozenset(["value"]),
    ),
    *(pads(n, space) for n, space in SPACES),
    rule("upsample_*1d*", args={"self": T("n c h"), "output_size": L(1, 1, 6)}, dtypes="float"),
    rule("upsample_*2d* _upsample_*2d*", args={"self": T("n c h w"), "output_size": L(2, 1, 6)}, dtypes="float"),
    rule("upsample_*3d* _upsample_*3d*", args={"self": T("n c d h w"), "output_size": L(3, 1, 4)}, dtypes="float"),
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
    ),
    rule(
        "grid_sampler_2d grid_sampler",  # torch gives memory as it was for a mode that there is not
        args=GRID,
        dtypes="wide",
        unchecked=frozenset(["interpolation_mode", "padding_mode"]),
    ),
)


# ---------------------------------------------------------------- resampling and padding


def small_or_wide(n: int) -> Callable:
    """Return a draw of sizes; of images some up to and beyond 128 in sum, where torch goes another way."""

    def draw(call: Any) -> list[int]:
        if n == 2 and call.chance(8):
            return call.choose(([1, 127], [2, 127], [126, 2], [3, 127]))
        return [call.integer(1, 5) for _ in range(n)]

    return draw


def resampling(n: int, space: str) -> tuple[Rule, ...]:
    names = f"upsample_*{n}d _upsample_*{n}d upsample_*{n}d_aa _upsample_*{n}d_aa"
    small = {"h": (1, 4), "w": (1, 4), "d": (1, 3)}
    forward = {"self": T(f"n c {space}"), "input": T(f"n c {space}"), "output_size": small_or_wide(n)}
    vec = {
        "output_size": D(lambda c: None if c.size("scaled") else [c.integer(1, 5) for _ in range(n)]),
        "scale_factors": D(lambda c: [c.choose((2.0, 1.5, 0.5))] * n if c.size("scaled") or c.wild else None),
    }
    size = {1: [3], 2: [3, 4], 3: [2, 3, 4]}[n]
    backward = {
        "grad_output": T(f"n c {' '.join(map(str, size))}"),
        "output_size": C((size,)),
        "input_size": sizes(f"n c {space}"),
    }
    padding = {
        "grad_output": T(f"n c {' '.join(f'{s}+2' for s in space.split())}"),
        "self": T(f"n c {space}", "same"),
        "padding": C(([1] * (2 * n),)),
    }
    return (
        rule(names, args=forward, dtypes="float", mixed=0, sizes=small),
        rule(" ".join(f"{name}.vec" for name in names.split()), args=vec, sizes={"scaled": (0, 1)}),
        rule(" ".join(f"{name}_backward" for name in names.split()), args=backward, dtypes="float", sizes=small),
        rule(
            f"reflection_pad{n}d_backward replication_pad{n}d_backward",
            args=padding,
            dtypes="float",
            sizes={"h": (2, 5), "w": (2, 5), "d": (2, 3)},
            unchecked=frozenset(["grad_output", "self"]),
        ),
        rule(f"reflection_pad{n}d_backward", unchecked=frozenset(["grad_output", "self", "padding"])),
    )


def stretched(axis: int) -> Callable:
    """Return a draw of a scale that reaches no further than the image: torch reads memory beyond it."""

    def draw(call: Any) -> float:
        size = call.held.get("input_size", call.shape)
        return call.held["output_size"][axis] / max(1, size[axis - 2]) * call.choose((1.0, 1.5, 3.0))

    return draw


RESAMPLING_AND_PADDING = (
    *(row for n, space in SPACES for row in resampling(n, space)),
    rule("_upsample_*2d_aa _upsample_*2d_aa_backward", args={"scales_h": stretched(0), "scales_w": stretched(1)}),
    rule(
        "_pad_enum",
        args={"self": T("n c h"), "pad": L(2, 0, 1), "mode": I(0, 3), "value": C((None, 1.5))},
        dtypes="float",
        sizes={"h": (3, 5)},
    ),
    rule(
        "affine_grid_generator",
        args={"theta": T("n 2 3"), "size": sizes("n c h w")},
        dtypes="wide",
        sizes={"h": (1, 3), "w": (1, 3)},
    ),
    # Of 1e22 - 1e22 the order of the additions decides what is left.
    rule(
        "affine_grid_generator_backward",
        args={"grad": T("n h w 2"), "size": sizes("n c h w")},
        dtypes="wide",
        sizes={"h": (1, 3), "w": (1, 3)},
        wild_values=False,
        wild=0,
    ),
    rule("_grid_sampler_2d_cpu_fallback grid_sampler_2d", args=GRID, **TAME),
    rule(
        "grid_sampler_2d_backward _grid_sampler_2d_cpu_fallback_backward",
        args={**GRID, "grad_output": T("n c 2 3"), "input": T("n c h w", "same")},
        **TAME,
    ),
    # Along one pixel the slope is 0 times the sum of the cubic weights' slopes: 0 or -0, as the sum is rounded.
    rule("_grid_sampler_2d_cpu_fallback_backward", sizes={"h": (2, 5), "w": (2, 5)}),
    rule("grid_sampler_3d", args=GRID3, **TAME),
    rule(
        "grid_sampler_3d_backward",
        args={**GRID3, "grad_output": T("n c 2 3 1", layout="c"), "input": T("n c d h w", "same")},
        **TAME,
    ),
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
    ),
)

ROWS = (*CONVOLUTIONS_AND_POOLS, *RESAMPLING_AND_PADDING)
