"""Dtypes for which torch 2.13 has no kernel but NumPy has, by operator, or by overload where overloads differ.

The letters are NumPy's dtype kinds; in addition ``U`` means uint16, uint32 and uint64, and ``e`` float16.
"""

from __future__ import annotations

LACKS = {
    "cbrt": "bce",
    "__and__": "cef", "__lshift__": "Ubcef", "__or__": "cef", "__rshift__": "Ubcef", "__xor__": "cef",
    "_conj_physical": "U", "_convert_indices_from_csr_to_coo": "Ubcef", "_linalg_eigh": "Ubeiu", "_fft_r2c": "Ubui", "_linalg_eigvals":
    "e", "_linalg_svd": "e", "_sample_dirichlet": "Ubceiu", "_sparse_mm": "Ub", "_standard_gamma": "Ubceiu",
    "_unique": "c", "_unique2": "c", "abs": "Ub", "absolute": "Ub", "add": "U", "amax": "Uc", "amin": "Uc",
    "arange": "Uc", "arctan2": "c", "argmax": "U", "argmin": "U", "argwhere": "U", "atan2": "c", "bernoulli": "Ubciu", "bernoulli_":
    "Uc", "bincount": "Ubcef", "binomial": "ebuUic", "multinomial": "buUic", "bucketize": "Ubc", "bitwise_and": "cef",
      "bitwise_left_shift": "Ubcef", "bitwise_not":
    "Ucef", "bitwise_or": "cef", "bitwise_right_shift": "Ubcef", "bitwise_xor": "cef", "ceil": "b", "cholesky":
    "Ubeiu", "clamp": "bUc", "clamp_max": "bUc", "clamp_min": "bUc", "clip": "bUc", "copysign": "c",
    "count_nonzero": "U", "cummax": "Uc", "cummin": "Uc", "cumprod": "U", "cumsum": "U", "det": "e", "diff": "U",
    "digamma": "c", "erf": "c", "erfc": "c", "erfinv": "c", "fft_fftfreq": "c", "fft_rfftfreq": "c", "fix": "b",
      "flip": "U", "fliplr": "U", "flipud": "U", "floor": "b", "floor_divide":
    "Ubc", "fmax": "U", "fmin": "U", "fmod": "Ubc", "gcd": "Ubcef", "ge": "Uc", "gradient": "U", "greater": "Uc",
    "greater_equal": "Uc", "gt": "Uc", "heaviside": "U", "histc": "Ubciu", "histogram": "Ubceiu", "histogramdd":
    "Ubceiu", "hypot": "Ubciu", "i0": "c", "igamma": "Ubciu", "igammac": "Ubciu", "inner": "Ub", "isin": "bUc",
    "kthvalue": "bcU", "lcm": "Ubcef", "le": "Uc", "less": "Uc", "less_equal": "Uc", "lgamma": "c",
    "linalg_cholesky": "e", "linalg_cond": "e", "linalg_det": "e", "linalg_eig": "e", "linalg_eigh": "Ubeiu",
    "linalg_eigvals": "e", "linalg_eigvalsh": "Ubeiu", "linalg_matmul": "Ub", "linalg_matrix_power": "U",
    "linalg_matrix_rank": "e", "linalg_qr": "e", "linalg_solve": "e", "linalg_svd": "e", "linalg_svdvals": "e",
    "log_normal": "Ubciu", "logaddexp": "Ubiu", "logaddexp2": "Ubciu", "logical_and": "U", "logical_not": "U",
    "logical_or": "U", "logical_xor": "U", "logit": "c", "lt": "Uc", "matmul": "Ub", "matrix_power": "U", "max":
    "Uc", "maximum": "U", "median": "Ubc", "min": "Uc", "minimum": "U", "mm": "Ub", "msort": "cU", "nanmedian":
    "Ubc", "nansum": "U", "neg": "U", "negative": "U", "nextafter": "Ubciu", "nonzero": "U", "nonzero_numpy": "U",
    "normal": "Ubiu", "normal_": "Ubiu", "normal_functional": "Ubiu", "poisson": "Ubciu", "pow": "Ub", "prod": "U",
    "qr": "e", "random": "Uc", "random.from": "c", "random.to": "c", "cauchy": "Ubuic", "exponential": "Ubuic",
      "geometric": "bc", "rand": "Ubui", "randn": "Ubui", "randint": "c", "randperm": "bc", "remainder": "Ubc",
      "repeat_interleave": "Ubcefu", "rot90": "U", "round": "bc",
    "rsub": "U", "searchsorted": "Ubc", "sgn": "U", "shift_left": "Ubcef", "shift_right_arithmetic": "Ubcef",
      "sign": "cU", "signbit": "c", "special_airy_ai": "ce",
    "special_bessel_j0": "ce", "special_bessel_j1": "ce", "special_bessel_y0": "ce", "special_bessel_y1": "ce",
    "special_digamma": "c", "special_entr": "c", "special_erf": "c", "special_erfc": "c", "special_erfcx": "ce",
    "special_erfinv": "c", "special_gammainc": "Ubciu", "special_gammaincc": "Ubciu", "special_gammaln": "c",
    "special_i0": "c", "special_i0e": "c", "special_i1": "c", "special_i1e": "c", "special_log_ndtr": "ce",
    "special_logit": "c", "special_modified_bessel_i0": "ce", "special_modified_bessel_i1": "ce",
    "special_modified_bessel_k0": "ce", "special_modified_bessel_k1": "ce", "special_ndtr": "c", "special_ndtri":
    "ce", "special_psi": "c", "special_round": "Ubciu", "special_scaled_modified_bessel_k0": "ce",
    "special_scaled_modified_bessel_k1": "ce", "special_spherical_bessel_j0": "ce", "special_xlog1py": "c",
    "special_xlogy": "c", "special_zeta": "ce", "square": "U", "sub": "U", "subtract": "U", "sum": "U", "svd": "e",
    "trace": "Ub", "trapezoid": "Ub", "trapz": "Ub", "tril": "U", "triu": "U", "trunc": "b", "uniform": "Ubiu",
    "unique_dim": "c", "where": "U", "xlogy": "c",
    **dict.fromkeys(("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"), "c"),
    "eye": "U", "scatter": "U", "range": "Uc", "linspace": "Ub", "logspace": "Ub", "tril_indices": "Ubcef", "triu_indices": "Ubcef",
}  # fmt: skip
