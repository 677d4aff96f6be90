"""The functions of the Python array API standard, and which of them is an operator's counterpart.

An operator's counterpart in the standard follows from its counterpart in NumPy (``like=`` of its row). Most standard
functions have the same name as in NumPy, and `RENAMED` lists the others. `OF_OPS` lists operators whose NumPy
counterpart does not determine the standard function.
"""

from __future__ import annotations

VERSION = "2024.12"

# The standard's functions. Of linalg and fft, only the names that the main namespace lacks are listed.
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

# NumPy functions that have another name in the standard, or are a special case of one of its functions.
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
    "aten::dot": "matmul",  # vecdot conjugates its first argument
    "aten::frobenius_norm": "linalg.vector_norm",
    "aten::mT": "matrix_transpose",
    "aten::nonzero": "nonzero",
    "aten::norm": "linalg.vector_norm",
    "aten::repeat": "tile",
    "aten::t": "matrix_transpose",
    "aten::t_": "matrix_transpose",
}


def counterpart(op: str, numpy: str) -> str | None:
    """Return the standard's function that is the counterpart of an operator (``"aten::amax"``), or None.

    Parameters
    ----------
    op : str
        The operator. For a derived row, the operator from which it derives.
    numpy : str
        The public name of the operator's counterpart in NumPy; ``""`` if it has none.

    Returns
    -------
    str or None
        A name within the standard's namespace: ``"max"``, ``"linalg.svd"``.
    """
    name = numpy.removeprefix("numpy.")
    found = OF_OPS.get(op) or RENAMED.get(name, name)
    return found if found in FUNCTIONS else None


def address(name: str) -> str:
    """Return the URL of a function's page in the standard."""
    return f"https://data-apis.org/array-api/{VERSION}/API_specification/generated/array_api.{name}.html"
