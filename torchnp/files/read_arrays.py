"""Arrays from .npy, .npz and .safetensors files: memory-mapped if possible, and never unpickled.

A .npy file is a magic number, the length of its header, the header (a Python dict of dtype, order and shape), and the
bytes. A .npz file is a zip of such files. A safetensors file is eight bytes with the length of its header
(little-endian), the header (JSON: for each tensor its dtype, its shape, and the offsets after the header at which its
bytes begin and end), and the bytes. A header is checked completely before any of it is used.
"""

from __future__ import annotations

import ast
import math
import os
from pathlib import Path
from typing import IO, Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.files.malformed import Malformed, shown
from torchnp.files.strict_json import parse_json, twice
from torchnp.files.zip_directory import check_packing, read_member, read_members

ndarray = np.ndarray

MAX_HEADER = 100 << 20  # bytes of a safetensors header; the format's own limit
MAX_NPY_HEADER = 10_000  # bytes; NumPy's own limit
MAX_DIMS = 64  # NumPy's limit
_MAGIC = b"\x93NUMPY"
_LENGTHS = {(1, 0): 2, (2, 0): 4, (3, 0): 4}  # by format version, the number of bytes that hold the header's length
# Names of dtypes in safetensors files, and torch's.
_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "I32": "int32", "U32": "uint32",
    "I64": "int64", "U64": "uint64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip


def read_arrays(path: str | os.PathLike) -> dict[str, ndarray]:
    """Return the arrays in a file by their names; the array of a .npy file has the name ``""``.

    Parameters
    ----------
    path : str or path
        A file whose name ends in .npy, .npz or .safetensors.

    Returns
    -------
    dict of str to ndarray
        Arrays of any of torch's dtypes, in the file's byte order. NumPy's formats have no names for bfloat16, float8
        and complex32: from .npy and .npz files these are ``V2``, ``V1`` and ``V4``. Arrays of .npy and .safetensors
        files are read-only and memory-mapped.

    Raises
    ------
    Malformed
        The content of the file does not match its suffix.
    OSError
        The file cannot be opened.
    """
    return READERS[Path(path).suffix.lower()](Path(path))


def read_npy(path: str | os.PathLike, mode: str = "r") -> ndarray:
    """Return the array of a .npy file, as `read_arrays` does.

    With mode "c" it is writable, but writes do not reach the file.
    """
    with open(path, "rb") as file:
        dtype, shape, order, start = _npy_header(file)
        need, have = _nbytes(dtype, shape), os.fstat(file.fileno()).st_size - start
        if need > have:
            raise Malformed(f"the shape {shape} of {dtype} needs {need} bytes, and behind the header there are {have}")
        if not need:
            return np.empty(shape, dtype)
        return np.memmap(file, dtype, mode, start, shape, order)  # type: ignore[call-overload]


# ---------------------------------------------------------------- NumPy's header


def _npy_header(file: IO[bytes] | _Bytes) -> tuple[np.dtype, tuple[int, ...], Any, int]:
    """Return the dtype, shape, order and offset of the data, from the header of a .npy file."""
    magic = file.read(8)
    if magic[:6] != _MAGIC or len(magic) < 8:
        raise Malformed("this is no .npy file of numbers")
    size = _LENGTHS.get((magic[6], magic[7]))
    if size is None:
        raise Malformed(f"its format has the version {magic[6]}.{magic[7]}, and there are 1.0, 2.0 and 3.0")
    length = int.from_bytes(file.read(size), "little")
    if length > MAX_NPY_HEADER:
        raise Malformed(f"its header of {length:,} bytes is longer than {MAX_NPY_HEADER:,}")
    text = file.read(length)
    if len(text) < length:
        raise Malformed("its header is cut short")
    fields = _fields(text.decode("latin1" if size == 2 or magic[6] == 2 else "utf-8", "replace"))
    order = fields["fortran_order"]
    if type(order) is not bool:
        raise Malformed(f"its header has the order {shown(order)}, not True or False")
    return _dtype(fields["descr"]), _shape(fields["shape"]), "F" if order else "C", 8 + size + length


# float8_e5m2 and complex32, which NumPy writes under these names and cannot read.
_NAMELESS = {"<f1": "V1", "<W4": "V4"}
_FIELDS = {"descr", "fortran_order", "shape"}


def _fields(text: str) -> dict[str, Any]:
    """Return the header's dict; refuse a repeated name, which ``literal_eval`` would not notice."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        names = [ast.literal_eval(key) for key in tree.keys if key is not None] if isinstance(tree, ast.Dict) else []
        if (name := twice(names)) is not None:
            raise Malformed(f"its header has two values of the name {shown(name)}")
        if not isinstance(tree, ast.Dict) or {*names} != _FIELDS:
            raise Malformed(f"its header has the names {shown(sorted(map(str, names)))}, not {sorted(_FIELDS)}")
        return {name: ast.literal_eval(value) for name, value in zip(names, tree.values)}
    except Malformed:
        raise
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise Malformed(f"its header is no Python dict: {shown(text)}") from error


def _dtype(text: Any) -> np.dtype:
    text = _NAMELESS.get(text, text) if isinstance(text, str) else text
    try:
        found = np.dtype(text) if isinstance(text, str) and len(text) <= 32 else np.dtype(object)
    except (TypeError, ValueError, SyntaxError):
        found = np.dtype(object)
    bare = found.kind == "V" and found.names is None and found.subdtype is None and found.itemsize in (1, 2, 4)
    if not bare and found.newbyteorder("=") not in dt.STORED:
        raise Malformed(f"this is no .npy file of numbers: its dtype is {shown(text)}")
    return found


def _shape(found: Any) -> tuple[int, ...]:
    if type(found) is not tuple or len(found) > MAX_DIMS or not all(type(n) is int for n in found):
        raise Malformed(f"its shape is {shown(found)}, no tuple of at most {MAX_DIMS} integers")
    _check_sizes(found)
    return found


def _check_sizes(shape: Any) -> None:
    """Refuse negative sizes, and more elements than a pointer can address, counting a size of 0 as 1."""
    if min(shape, default=0) < 0 or math.prod(n or 1 for n in shape) >= 2**60:
        raise Malformed(f"its shape is {shown(tuple(shape))}, whose elements no memory holds")


def _nbytes(dtype: np.dtype, shape: Any) -> int:
    return int(dtype.itemsize * math.prod(shape))


# ---------------------------------------------------------------- the three kinds of files


def _npz(path: Path) -> dict[str, ndarray]:
    with open(path, "rb") as file:
        try:
            members = read_members(file)
        except Malformed as error:
            raise Malformed(f"this is no .npz file of numbers: {error}") from error
        if (name := twice(member.name for member in members)) is not None:
            raise Malformed(f"it has two members of the name {shown(name)}")
        found = {}
        for member in members:
            if not member.name.endswith(".npy"):
                raise Malformed(f"its member {shown(member.name)} is no .npy file")
            try:
                check_packing(member)
                found[member.name.removesuffix(".npy")] = _unpacked(read_member(file, member))
            except Malformed as error:
                raise Malformed(f"its member {shown(member.name)}: {error}") from error
        return found


def _unpacked(raw: ndarray) -> ndarray:
    """Return the array of a .npy file that is in memory, without a copy."""
    dtype, shape, order, start = _npy_header(_Bytes(raw))
    need, have = _nbytes(dtype, shape), raw.size - start
    if need != have:
        raise Malformed(f"the shape {shape} of {dtype} needs {need} bytes, and behind the header there are {have}")
    return raw[start:].view(dtype).reshape(shape, order=order) if need else np.empty(shape, dtype)


class _Bytes:
    """An array of bytes as a file object, for reading a header."""

    def __init__(self, raw: ndarray) -> None:
        self._raw, self._at = raw, 0

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most ``size``."""
        found = self._raw[self._at : self._at + size].tobytes()
        self._at += len(found)
        return found


def _safetensors(path: Path) -> dict[str, ndarray]:
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        size = os.fstat(file.fileno()).st_size - 8 - length
        if size < 0 or length > MAX_HEADER:
            raise Malformed(f"its header of {length:,} bytes is longer than the file, or than {MAX_HEADER:,}")
        header = parse_json(file.read(length), "this is no .safetensors file of numbers: its header")
    if not isinstance(header, dict):
        raise Malformed("its header is no object")
    header.pop("__metadata__", None)
    places = sorted((_place(key, entry) for key, entry in header.items()), key=lambda p: p[3:])
    end = 0
    for key, _, _, start, stop in places:
        if start != end:
            raise Malformed(f"the bytes of {shown(key)} begin at {start} and not at {end}, where those before end")
        end = stop
    if end != size:
        raise Malformed(f"its tensors have {end:,} bytes and the file {size:,}")
    window = np.memmap(path, np.uint8, "r", 8 + length) if size else np.empty(0, np.uint8)
    return {key: _view(window[start:stop], dtype, shape) for key, dtype, shape, start, stop in places}


def _view(raw: ndarray, dtype: np.dtype, shape: list[int]) -> ndarray:
    array = raw.view(dtype).reshape(shape) if raw.size else np.empty(shape, dtype)
    return array if array.flags.aligned else np.array(array)


def _place(key: str, entry: Any) -> tuple[str, np.dtype, list[int], int, int]:
    """Return the name, dtype, shape, first byte and end of a tensor, from its entry in the header."""
    entry = entry if isinstance(entry, dict) else {}
    name, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(name, str) or name not in _DTYPES:
        raise Malformed(f"{shown(key)} has the dtype {shown(name)}, and there are {', '.join(_DTYPES)}")
    dtype = dt.as_dtype(_DTYPES[name])
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n < 2**62 for n in numbers):
            raise Malformed(f"the shape or the place of {shown(key)} is no list of sizes")
    if len(offsets) != 2 or len(shape) > MAX_DIMS or offsets[1] - offsets[0] != _nbytes(dtype, shape):
        raise Malformed(
            f"{shown(key)} of shape {shown(shape)} and dtype {name} does not fit its place {shown(offsets)}"
        )
    _check_sizes(shape)
    return key, dtype, shape, offsets[0], offsets[1]


READERS = {".npy": lambda path: {"": read_npy(path)}, ".npz": _npz, ".safetensors": _safetensors}
