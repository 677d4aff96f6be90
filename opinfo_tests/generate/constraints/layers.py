"""Constraints of convolutions, pooling, resampling and padding; see `opinfo_tests.generate.constraints.constraint`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..windows import AVERAGES, CONVOLUTIONS, POOLS, WindowKind, numbers, over, windows_of
from .constraint import C, ConstraintRule, D, I, L, T, rule, sizes

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
    kind = CONVOLUTIONS[n]
    return {
        "input": over(kind, "n g*c"), "weight": over(kind, "g*c o" if transposed else "g*o c", "kernel_size", dtype="same"),
        "bias": T("g*o", "same"), "groups": I("g", "g", always=True),
        **numbers(kind, "stride", "padding", "dilation", "output_padding"),
    }  # fmt: skip


GROUPS = {
    "sizes": CONV_SIZES,
    "always": frozenset(["groups", "stride", "padding", "dilation", "output_padding", "bias"]),
}
POOL_SIZES = {"h": (3, 7), "w": (3, 7), "d": (3, 5)}


def either_way(kind: WindowKind, values: str = "any") -> Callable:
    """Return a function that generates a convolution's weight, or, if the call is transposed, one for that."""

    def draw(call: Any) -> Any:
        lead = "g*c o" if call.size("transposed") else "g*o c"
        return over(kind, lead, "kernel_size", dtype="same", values=values)(call)

    return draw


# In half precision torch rounds some sums before it adds the bias, which changes results with an infinite bias.
EITHER_WAY = {
    "weight": either_way(CONVOLUTIONS[2]),
    "bias": T("g*o", "same", "tame"),
    "transposed": lambda c: bool(c.size("transposed")),
}


def mostly_one(n: int) -> Callable:
    """Return a function that generates strides: 1 except in wild calls, since "same" padding allows no other stride."""
    return lambda c: [c.integer(1, 2) if c.wild else 1 for _ in range(n)]


def convolutions(n: int) -> tuple[ConstraintRule, ...]:
    lone = {"input": over(CONVOLUTIONS[n], "n? g*c")}
    kept = {"padding": C(("same", "valid")), "stride": mostly_one(n)}
    back = {**GROUPS, "sizes": {**CONV_SIZES, "transposed": (1, 1)}}
    return (
        rule(f"conv{n}d", args=conv(n) | lone, **GROUPS),
        rule(f"conv{n}d.padding", args=conv(n) | lone | kept, **GROUPS),
        rule(f"conv_transpose{n}d*", args=conv(n, transposed=True) | lone, **back),
    )


WINDOW = frozenset(["stride", "padding", "dilation", "ceil_mode"])


def pools(n: int, space: str) -> tuple[ConstraintRule, ...]:
    args = {
        "self": T(f"n? c {space}"),
        "kernel_size": L(n, 1, 3),
        "stride": L(n, 1, 3),
        "padding": L(n, 0, 2),
        "dilation": L(n, 1, 2),
        "output_size": L(n, 1, 4),
        "divisor_override": C((None, 2, 5, -3)),
    }

    def windows(kind: WindowKind) -> dict:
        return {
            "self": over(kind, "n? c"),
            **numbers(kind, "kernel_size", "stride", "padding", "dilation", "ceil_mode"),
        }

    return (
        rule(f"*pool{n}d*", args=args, sizes=POOL_SIZES, always=frozenset(["stride"])),
        rule(f"max_pool{n}d*", args=windows(POOLS[n]), always=WINDOW),
        rule(f"avg_pool{n}d*", args=windows(AVERAGES[n]), always=WINDOW - {"dilation"}),
    )


def pool_gradients(n: int) -> tuple[ConstraintRule, ...]:
    """Return rules for gradients of pooling; ``grad_output`` has the shape of the pooling's output."""

    def given(kind: WindowKind) -> dict:
        return {"grad_output": over(kind, "n? c", "out", values="tame"), "self": over(kind, "n? c", dtype="same")}

    def places(c: Any) -> Any:
        last = math.prod(windows_of(c, POOLS[n]).sizes) - 1
        return over(POOLS[n], "n? c", "out", dtype="int64", values=(0, last))(c)

    return (
        rule(f"avg_pool{n}d_backward", args=given(AVERAGES[n]), unchecked=frozenset(["grad_output", "self"])),
        rule(f"max_pool{n}d_with_indices_backward", args=given(POOLS[n]) | {"indices": places}),
    )


def pads(n: int, space: str) -> ConstraintRule:
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
    rule("_convolution_mode", args={**conv(2), "padding": C(("same", "valid")), "stride": mostly_one(2)}, **GROUPS),
    rule(
        "convolution_backward",
        args={
            **conv(2),
            "grad_output": over(CONVOLUTIONS[2], "n g*o", "out"),
            "input": over(CONVOLUTIONS[2], "n g*c", dtype="same"),
            "weight": either_way(CONVOLUTIONS[2]),
            "transposed": EITHER_WAY["transposed"],
            # for an empty input, torch reads bias_sizes even if it is None
            "bias_sizes": D(lambda c: [c.value("g*o")]),
        },
        unchecked=frozenset(["grad_output"]),
        sizes={**CONV_SIZES, "transposed": (0, 1)},
        always=GROUPS["always"],
    ),
    rule(
        # autograd passes a convolution's arguments; sums of infinities depend on the order of additions
        "_convolution_double_backward",
        args={
            **conv(2),
            "ggI": over(CONVOLUTIONS[2], "n g*c", values="tame"),
            "ggW": either_way(CONVOLUTIONS[2], "tame"),
            "ggb": T("g*o", "same", "tame"),
            "gO": over(CONVOLUTIONS[2], "n g*o", "out", dtype="same", values="tame"),
            "weight": either_way(CONVOLUTIONS[2], "tame"),
            "self": over(CONVOLUTIONS[2], "n g*c", dtype="same", values="tame"),
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
    *(row for n, space in SPACES for row in pools(n, space)),
    *(row for n in (2, 3) for row in pool_gradients(n)),
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
        # torch does not compare batches and channels, and reads beyond the smaller array
        "_adaptive_avg_pool2d_backward",
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
            "self": over(CONVOLUTIONS[2], "n? c"),
            **numbers(CONVOLUTIONS[2], "kernel_size", "dilation", "padding", "stride"),
        },
        dtypes="float",
    ),
    rule(
        "grid_sampler_2d grid_sampler",  # for an unknown mode torch returns uninitialized memory
        args=GRID,
        dtypes="wide",
        unchecked=frozenset(["interpolation_mode", "padding_mode"]),
    ),
)


# ---------------------------------------------------------------- resampling and padding


def small_or_wide(n: int) -> Callable:
    """Return a function that generates output sizes; some add up to about 128, where torch's algorithm changes."""

    def draw(call: Any) -> list[int]:
        if n == 2 and call.chance(8):
            return call.choose(([1, 127], [2, 127], [126, 2], [3, 127]))
        return [call.integer(1, 5) for _ in range(n)]

    return draw


def resampling(n: int, space: str) -> tuple[ConstraintRule, ...]:
    names = f"upsample_*{n}d _upsample_*{n}d upsample_*{n}d_aa _upsample_*{n}d_aa"
    small = {"h": (1, 4), "w": (1, 4), "d": (1, 3)}
    forward = {"self": T(f"n c {space}"), "input": T(f"n c {space}"), "output_size": small_or_wide(n)}
    vec = {
        "output_size": D(lambda c: None if c.size("scaled") else [c.integer(1, 5) for _ in range(n)]),
        "scale_factors": D(lambda c: [c.choose((2.0, 1.5, 0.5))] * n if c.size("scaled") or c.wild else None),
    }
    out = {1: "p", 2: "p q", 3: "o p q"}[n]
    backward = {"grad_output": T(f"n c {out}"), "output_size": sizes(out), "input_size": sizes(f"n c {space}")}
    small |= dict.fromkeys("opq", (1, 5))
    sides = [f"{side}{d}" for d in reversed(range(n)) for side in "ab"]  # pads of the last dimension come first
    reached = " ".join(f"{size}+a{d}+b{d}" for d, size in enumerate(space.split()))
    padding = {
        "grad_output": T(f"n? c {reached}"),
        "self": T(f"n? c {space}", "same"),
        "padding": sizes(" ".join(sides)),
    }
    return (
        rule(names, args=forward, dtypes="float", mixed=0, sizes=small),
        rule(" ".join(f"{name}.vec" for name in names.split()), args=vec, sizes={"scaled": (0, 1)}),
        rule(" ".join(f"{name}_backward" for name in names.split()), args=backward, dtypes="float", sizes=small),
        rule(
            f"reflection_pad{n}d_backward replication_pad{n}d_backward",
            args=padding,
            dtypes="float",
            sizes={"h": (3, 5), "w": (3, 5), "d": (3, 4), **dict.fromkeys(sides, (0, 2))},
            unchecked=frozenset(["grad_output", "self"]),
            wild=0,
        ),
        rule(f"reflection_pad{n}d_backward", unchecked=frozenset(["grad_output", "self", "padding"])),
    )


def stretched(axis: int) -> Callable:
    """Return a function that generates a scale for which torch does not read beyond the image."""

    def draw(call: Any) -> float:
        size = call.held.get("input_size", call.shape)
        return call.held["output_size"][axis] / max(1, size[axis - 2]) * call.choose((1.0, 1.5, 3.0))

    return draw


def columns(call: Any) -> Any:
    """Generate the windows of an image as columns."""
    w = windows_of(call, CONVOLUTIONS[2])
    return call.array(T(f"n? c*{math.prod(w.kernel_size)} {math.prod(w.out)}"))


RESAMPLING_AND_PADDING = (
    *(row for n, space in SPACES for row in resampling(n, space)),
    rule("_upsample_*2d_aa _upsample_*2d_aa_backward", args={"scales_h": stretched(0), "scales_w": stretched(1)}),
    rule(
        "_pad_enum",
        args={
            "self": lambda c: c.array(T(f"n? c {SPACES[c.integer(0, 2)][1]}")),
            "pad": lambda c: [c.integer(0, 2) for _ in range(2 * max(1, len(c.shape) - c.integer(1, 2)))],
            "mode": I(0, 3),
            "value": C((None, 0.0, 1.5)),
        },
        dtypes="float",
        sizes={"h": (3, 5), "w": (2, 4), "d": (2, 3), "n": (1, 2), "c": (1, 2)},
    ),
    rule(
        "affine_grid_generator",
        args={"theta": T("n 2 3"), "size": sizes("n c h w")},
        dtypes="wide",
        sizes={"h": (1, 3), "w": (1, 3)},
    ),
    # Large terms that cancel, such as 1e22 - 1e22, make the result depend on the order of additions.
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
    # Along a dimension of size 1 the slope is 0 times the sum of the cubic weights' slopes, whose sign depends on
    # rounding.
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
            "self": columns,
            "output_size": lambda c: windows_of(c, CONVOLUTIONS[2]).sizes,
            **numbers(CONVOLUTIONS[2], "kernel_size", "dilation", "padding", "stride"),
        },
        dtypes="float",
    ),
)

ROWS = (*CONVOLUTIONS_AND_POOLS, *RESAMPLING_AND_PADDING)
