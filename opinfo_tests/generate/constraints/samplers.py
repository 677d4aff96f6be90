"""Constraints of samplers: gamma, Philox, Sobol; see `opinfo_tests.generate.constraints.constraint`."""

from __future__ import annotations

from .constraint import C, I, T, rule

# torch checks no shape, and reads beyond a state that has fewer columns than the point numbers have bits.
_SOBOL = {"quasi": T("d", "int64"), "n": I(0, 4), "sobolstate": T("d 30", "int64"), "dimension": I("d", "d"),
          "num_generated": I(0, 9)}  # fmt: skip
ROWS = (
    rule("_standard_gamma* _sample_dirichlet _dirichlet_grad", dtypes="wide", values="positive", wild=4),
    rule(
        "_philox*",
        args={"key": T("2", "uint64", (0, 2**62)), "data": T("", "uint64"), "num_splits": I(1, 5)},
        dtypes="float",
    ),
    rule("_philox_randint*", args={"low": C((None, 0, -3)), "high": C((None, 5, 200))}, dtypes="int"),
    rule("_philox_key_fold_in", args={"data": I(-2, 5)}),
    rule("_sobol_engine_draw", args=_SOBOL, mixed=0, wild=0),
    # torch writes beyond a state that has fewer rows than dimensions.
    rule(
        "_sobol_engine_initialize_state_",
        dies=lambda case: type(case.args[1]) is int and case.arrays()[0].shape[:1] < (case.args[1],),
    ),
)
