"""Constraints of Fourier transforms, windows, spectra and `gradient`; see `opinfo_tests.generate.constraints.constraint`."""

from __future__ import annotations

from typing import Any

from .constraint import C, I, N, T, rule

# ---------------------------------------------------------------- Fourier transforms

NORMS = C((None, "forward", "backward", "ortho"))


def transformed(call: Any) -> Any:
    """Generate ``dim``: as many dimensions as there are sizes, if sizes are given."""
    count = len(call.held.get("s") or ())
    return call.choose({0: (None, [0], [1, 2], [-1]), 1: (None, [0], [-1]), 2: (None, [1, 2], [0, -1], [-1, 0])}[count])


_FFT = {"self": T("n m c"), "n": C((None, 1, 3, 4)), "s": C((None,)), "norm": NORMS, "dim": C((-1, 0, 1))}

FOURIER_TRANSFORMS = (
    rule("fft_*", args=_FFT, dtypes="lapack", values="tame", sizes={"m": (2, 4), "c": (2, 5)}),
    rule("fft_rfft* fft_ihfft*", dtypes="wide"),
    rule("fft_*fft2", args={"dim": C(([-2, -1], [0, 1])), "s": C((None, [3, 4], [-1, 3], [2, -1]))}),
    rule("fft_fftshift fft_ifftshift", args={"dim": C((None, [0], [1, 2], [-1]))}),
    # A size of -1 means the size of the input.
    rule("fft_*fftn", args={"s": C((None, None, [3], [-1, 3], [2, -1])), "dim": transformed}),
    # For one dimension, torch's out= form reads out=, and does not change it.
    rule("fft_ihfftn", args={"dim": C((None, [0, 1], [1, 2]))}, wild=0),
    rule("fft_fftfreq fft_rfftfreq", args={"n": I(1, 6), "d": C((1.0, 0.5))}, dtypes="wide"),
    rule(
        "_fft_c2c",
        args={"self": T("n m"), "dim": C(([0], [1], [0, 1])), "normalization": I(0, 2)},
        dtypes="complex",
        values="tame",
    ),
    rule(
        "_fft_c2r",
        args={
            "self": T("n m"),
            "dim": C(([1], [0, 1])),
            "normalization": I(0, 2),
            "last_dim_size": I("2*m-2", "2*m-1"),
        },
        dtypes="complex",
        values="tame",
        sizes={"m": (2, 4)},
    ),
    rule(
        "_fft_r2c",
        args={"self": T("n m"), "dim": C(([1], [0, 1])), "normalization": I(0, 2)},
        dtypes="wide",
        values="tame",
        sizes={"m": (1, 16)},
    ),
    rule("_fft_*", wild_values=False),  # torch checks no dimensions and sizes, and reads out of bounds
    rule("stft istft", args={"self": T("16"), "n_fft": C((4,))}, dtypes="wide"),
)

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

# ---------------------------------------------------------------- gradient

_POINTS = {"self": T("n m"), "edge_order": I(1, 2), "spacing": N((1, 2, 0.5, -1.5))}
GRADIENTS = (
    rule("gradient.*", args=_POINTS, sizes={"n": (2, 4), "m": (3, 4)}, dtypes="any", wild=6),
    rule("gradient.scalararray gradient.array", args={"dim": C(([0], [1, 0], [], [-1]))}),
    rule("gradient.scalarrayarray", args={"dim": C(([1, 0], [0, 1])), "spacing": C(([1, 2], [0.5, -1.5]))}),
    rule("gradient.scalarrayint", args={"dim": C((0, 1, -1)), "spacing": C(([1, 2], [0.5, -1.5], [2]))}),
    rule("gradient.tensorarrayint", args={"dim": C((0, -2)), "spacing": lambda c: [c.array(T("n", "same", "distinct"))]}),
    rule("gradient.tensorarray", args={"dim": C(([1, 0],)), "spacing": lambda c: [
        c.array(T("m", "same", "distinct")), c.array(T("n", "same", "distinct"))]}),
)  # fmt: skip

ROWS = (*FOURIER_TRANSFORMS, *WINDOWS_AND_SPECTRA, *GRADIENTS)
