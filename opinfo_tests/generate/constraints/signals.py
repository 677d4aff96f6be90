"""Constraints of spectra, samplers, LDL factors and differences; see `opinfo_tests.generate.constraints.constraint`."""

from __future__ import annotations

from .constraint import C, I, N, T, rule

# ---------------------------------------------------------------- windows and spectra

_FRAMES = {"self": T("b? 12"), "n_fft": C((4, 5, 8)), "hop_length": C((None, 1, 3)), "win_length": C((None, 4)),
           "window": T("4", "real", "positive"), "pad_mode": C(("reflect", "constant", "replicate", "circular")),
           "onesided": C((None, False)), "return_complex": C((True, False)), "align_to_window": C((None, False, True))}  # fmt: skip
_SPECTRUM = {
    **_FRAMES,
    "self": T("b? 5 6"),
    "n_fft": C((8, 5)),
    "length": C((None, 5, 30)),
    "return_complex": C((False,)),
}
WINDOWS_AND_SPECTRA = (
    rule("*_window *_window.*", args={"window_length": I(0, 9), "periodic": C((True, False))}),
    rule("stft stft.center", args=_FRAMES, dtypes="lapack", values="tame", wild=4, mixed=0),
    rule("istft", args=_SPECTRUM, dtypes="complex", values="tame", wild=4),
)

# ---------------------------------------------------------------- factors and differences

_LDL = {"self": T("* n n", "main", "square"), "LD": T("* n n", "main", "square"), "B": T("* n k", "same"),
        "pivots": lambda c: c.array(T("* n", "int32", (1, 1)))}  # fmt: skip
_POINTS = {"self": T("n m"), "edge_order": I(1, 2), "spacing": N((1, 2, 0.5, -1.5))}
FACTORS = (
    rule("linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve", args=_LDL, dtypes="lapack", mixed=0, sizes={"n": (1, 4)}),
    rule("gradient.*", args=_POINTS, sizes={"n": (2, 4), "m": (3, 4)}, dtypes="any", wild=6),
    rule("gradient.scalararray gradient.array", args={"dim": C(([0], [1, 0], [], [-1]))}),
    rule("gradient.scalarrayarray", args={"dim": C(([1, 0], [0, 1])), "spacing": C(([1, 2], [0.5, -1.5]))}),
    rule("gradient.scalarrayint", args={"dim": C((0, 1, -1)), "spacing": C(([1, 2], [0.5, -1.5], [2]))}),
    rule("gradient.tensorarrayint", args={"dim": C((0, -2)), "spacing": lambda c: [c.array(T("n", "same", "distinct"))]}),
    rule("gradient.tensorarray", args={"dim": C(([1, 0],)), "spacing": lambda c: [
        c.array(T("m", "same", "distinct")), c.array(T("n", "same", "distinct"))]}),
)  # fmt: skip

# torch checks no shape, and reads beyond a state that has fewer columns than the point numbers have bits.
_SOBOL = {"quasi": T("d", "int64"), "n": I(0, 4), "sobolstate": T("d 30", "int64"), "dimension": I("d", "d"),
          "num_generated": I(0, 9)}  # fmt: skip
SAMPLERS = (
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

ROWS = (*WINDOWS_AND_SPECTRA, *FACTORS, *SAMPLERS)
