"""The Python array API standard's functions, and which of them an operator has as its counterpart.

An operator's counterpart in the standard follows from its counterpart in NumPy (``like=`` of its row). Most have the
same name, `RENAMED` has the others, and `OF_OPS` has operators whose NumPy counterpart does not decide.
"""

from __future__ import annotations

VERSION = "2024.12"

# The standard's functions; of linalg and fft only names that the main namespace lacks.
_NAMES = """
abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and bitwise_invert
bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays broadcast_to can_cast ceil clip concat conj
copysign cos cosh count_nonzero cumulative_prod cumulative_sum diff divide empty empty_like equal exp expand_dims expm1 eye
flip floor floor_divide from_dlpack full full_like greater greater_equal hypot imag isfinite isinf isnan less less_equal
linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul matrix_transpose max maximum
mean meshgrid min minimum moveaxis multiply negative nextafter nonzero not_equal ones ones_like permute_dims positive pow
prod real reciprocal remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh sort sqrt square
squeeze stack std subtract sum take take_along_axis tan tanh tensordot tile tril triu trunc unique_all unique_counts
unique_inverse unique_values unstack var vecdot where zeros zeros_like
linalg.cholesky linalg.cross linalg.det linalg.diagonal linalg.eigh linalg.eigvalsh linalg.inv linalg.matrix_norm
linalg.matrix_power linalg.matrix_rank linalg.outer linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.svd
linalg.svdvals linalg.trace linalg.vector_norm
fft.fft fft.fftfreq fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifftn fft.ifftshift fft.ihfft fft.irfft fft.irfftn fft.rfft
fft.rfftfreq fft.rfftn
"""
FUNCTIONS = frozenset(_NAMES.split())

# NumPy functions with another name in the standard, or that are a special case of one of its functions.
RENAMED = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "array": "asarray", "concatenate": "concat", "conjugate": "conj",
    "cross": "linalg.cross", "cumprod": "cumulative_prod", "cumsum": "cumulative_sum", "diagonal": "linalg.diagonal",
    "digitize": "searchsorted", "fft.fft2": "fft.fftn", "fft.ifft2": "fft.ifftn", "fft.irfft2": "fft.irfftn",
    "fft.rfft2": "fft.rfftn", "fliplr": "flip", "flipud": "flip", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "linalg.vecdot": "vecdot", "ndarray.__iter__": "unstack", "ndarray.astype": "astype",
    "ndarray.flatten": "reshape", "outer": "linalg.outer", "power": "pow", "promote_types": "result_type", "ravel": "reshape",
    "right_shift": "bitwise_right_shift", "swapaxes": "permute_dims", "trace": "linalg.trace", "transpose": "permute_dims",
    "vdot": "vecdot",
}  # fmt: skip

OF_OPS = {
    "aten::_unique": "unique_inverse",
    "aten::_unique2": "unique_all",
    "aten::dot": "matmul",  # vecdot takes the conjugate of the first
    "aten::frobenius_norm": "linalg.vector_norm",
    "aten::mT": "matrix_transpose",
    "aten::nonzero": "nonzero",
    "aten::norm": "linalg.vector_norm",
    "aten::repeat": "tile",
    "aten::t": "matrix_transpose",
    "aten::t_": "matrix_transpose",
}


def counterpart(op: str, numpy: str) -> str | None:
    """The standard's function that a reader would take for the same as an operator (``"aten::amax"``), or None.

    Parameters
    ----------
    op : str
        The operator; for a derived row, the one that it derives from.
    numpy : str
        The public name of its counterpart in NumPy, ``""`` if it has none.

    Returns
    -------
    str or None
        A name within the standard's namespace, as in ``"max"`` or ``"linalg.svd"``.
    """
    name = numpy.removeprefix("numpy.")
    found = OF_OPS.get(op) or RENAMED.get(name, name)
    return found if found in FUNCTIONS else None


def address(name: str) -> str:
    """The URL of a function's page in the standard."""
    return f"https://data-apis.org/array-api/{VERSION}/API_specification/generated/array_api.{name}.html"
