"""The constraint rows of windows, spectra, samplers and factors; `constraints` says how they are read."""

from __future__ import annotations

from .constraints import C, I, T, rule

# ---------------------------------------------------------------- windows and spectra

_FRAMES = {"self": T("b? 12"), "n_fft": C((4, 5, 8)), "hop_length": C((None, 1, 3)), "win_length": C((None, 4)),
           "window": T("4", "real", "positive"), "pad_mode": C(("reflect", "constant", "replicate", "circular")),
           "onesided": C((None, False)), "return_complex": C((True, False)), "align_to_window": C((None,))}  # fmt: skip
_SPECTRUM = {**_FRAMES, "self": T("b? 5 6"), "n_fft": C((8, 5)), "length": C((None, 5)), "return_complex": C((False,))}
WINDOWS_AND_SPECTRA = (
    rule("*_window *_window.*", args={"window_length": I(0, 9), "periodic": C((True, False))}),
    rule("stft stft.center", args=_FRAMES, dtypes="lapack", values="tame", wild=4, mixed=0),
    rule("istft", args=_SPECTRUM, dtypes="complex", values="tame", wild=4),
)

ROWS = (*WINDOWS_AND_SPECTRA,)
