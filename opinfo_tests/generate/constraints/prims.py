"""Constraints of prims; see `opinfo_tests.generate.constraints.constraint`."""

from __future__ import annotations

from ...case import Named
from .constraint import C, I, T, rule

# ---------------------------------------------------------------- prims


PRIMS = (
    rule(
        "prims::scalar_tensor",
        always=frozenset(["dtype", "device"]),
        args={
            "dtype": C((Named("dtype", "float32"), Named("dtype", "int64")), always=True),
            "device": C((Named("device", "cpu"),), always=True),
        },
    ),
    rule("prims::zeta", dtypes="wide", values="positive"),
    rule("prims::where", args={"pred": T("any", "bool"), "a": T("like"), "b": T("like", "same")}, mixed=2),
    rule("prims::transpose", args={"permutation": lambda c: c.permuted(range(len(c.shape)))}),
    rule(
        "prims::squeeze",
        args={"self": T("n 1 m 1"), "a": T("n 1 m 1"), "dimensions": C(([1], [3], [1, 3], [])), "dims": C(([1], [3]))},
    ),
    rule(
        "prims::broadcast_in_dim",
        args={"a": T("n ~m"), "shape": lambda c: [c.size("n"), 2, c.size("m")], "broadcast_dimensions": C(([0, 2],))},
    ),
    rule(
        "prims::empty_strided",
        args={"shape": lambda c: [c.size("n"), c.size("m")], "strides": lambda c: [max(1, c.size("m")), 1]},
    ),
    # If elements overlap, torch promises no order of writes.
    rule("prims::copy_strided", args={"a": T("n m"), "stride": lambda c: [max(1, c.size("m")), 1]}, wild=0),
    rule("prims::bitwise_* prims::shift_*", dtypes="int"),
    rule("prims::conj prims::conj_physical prims::real prims::imag", dtypes="complex"),
    rule(
        "prims::fft_*",
        args={"self": T("n m"), "dim": C(([1], [0, 1])), "last_dim_size": I("2*m-2", "2*m-1")},
        values="tame",
        sizes={"m": (2, 4)},
        wild_values=False,  # for wrong sizes and negative dimensions torch reads out of bounds
    ),
    rule("prims::fft_c2c prims::fft_c2r", dtypes="complex"),
    rule("prims::fft_c2r", wild=0),  # torch writes out of bounds, for example for three columns with a last size of 2
    rule("prims::fft_r2c", dtypes="wide"),
    rule("prims::split_dim", args={"a": T("n 6"), "dim": C((1,)), "outer_length": C((1, 2, 3, 6))}),
    rule("prims::var", dtypes="float", always=frozenset(["correction"])),
    rule("prims::scalar_tensor", always=frozenset(["dtype", "device"]), args={"dtype": lambda c: c.named(c.dtype)}),
    rule(
        "prims::iota",
        args={
            "length": I(0, 5),
            "start": I(-2, 2),
            "step": I(1, 3),
            "dtype": lambda c: c.named("int64"),
        },
    ),
    rule("prims::item", args={"a": T("")}),
)

ROWS = PRIMS
