"""An owner's arrays from files: .npy and .safetensors are mapped into memory, .npz is unpacked; nothing is unpickled.

A safetensors file is eight bytes with the length of its header (little-endian), the header (JSON: for each tensor its
dtype, its shape, and where its bytes begin and end behind the header), and the bytes. All of that is checked here
before any of it is used.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from torchnp.rpc.wire import dtype_of, nbytes_of

MAX_HEADER = 100 << 20  # bytes, the format's own limit
_ONE_OF = re.compile(r"(.+\.(?:npz|safetensors)):(.+)", re.IGNORECASE)
# Their names of dtypes, and torch's.
_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "I32": "int32", "U32": "uint32",
    "I64": "int64", "U64": "uint64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip


def load(name: str, file: str, folder: Path = Path()) -> dict[str, np.ndarray]:
    """The arrays that ``NAME = FILE`` stands for.

    Parameters
    ----------
    name : str
        Of the array; of a file with several arrays, what stands before the dot of each.
    file : str
        ``FILE.npy``, ``FILE.npz`` or ``FILE.safetensors``, or ``FILE.npz:KEY`` for one array of several.
    folder : Path
        What the file's name is relative to.

    Raises
    ------
    ValueError
        The file is not there or not what its name says.
    """
    found = _ONE_OF.fullmatch(file)
    file, key = found.groups() if found else (file, None)
    read = _READERS.get(Path(file).suffix.lower())
    if read is None:
        raise ValueError(f"{file} has to end in {', '.join(_READERS)}")
    try:
        arrays = read(folder / file)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, RecursionError) as error:
        why = getattr(error, "strerror", None) or (str(error) if isinstance(error, _Wrong) else "")
        raise ValueError(f"{file}: {why or f'this is no {Path(file).suffix} file of numbers'}") from None
    if key is not None:
        if key not in arrays:
            raise ValueError(f"{file} has no array {key!r}; it has {', '.join(sorted(arrays)) or 'none'}")
        arrays = {"": arrays[key]}
    return {f"{name}.{key}" if key else name: _native(array) for key, array in arrays.items()}


def _native(array: np.ndarray) -> np.ndarray:
    """The array in this machine's byte order, with bools that are 0 or 1."""
    if array.dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
        return array.view(np.uint8) != 0
    return array.astype(array.dtype.newbyteorder("="), copy=False)


class _Wrong(ValueError):
    """A file is not what it should be; the text says in what."""


def _npy(path: Path) -> dict[str, np.ndarray]:
    with open(path, "rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise _Wrong("this is no .npy file of numbers")
    try:
        return {"": np.load(path, mmap_mode="r", allow_pickle=False)}
    except ValueError as error:
        if "mmap" not in str(error) and "empty" not in str(error):
            raise
        return {"": np.load(path, allow_pickle=False)}  # of no elements: there is nothing to map


def _npz(path: Path) -> dict[str, np.ndarray]:
    if not zipfile.is_zipfile(path):
        path.stat()
        raise _Wrong("this is no .npz file of numbers")
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def _safetensors(path: Path) -> dict[str, np.ndarray]:
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        size = path.stat().st_size - 8 - length
        if size < 0 or length > MAX_HEADER:
            raise _Wrong(f"its header of {length:,} bytes is longer than the file, or than {MAX_HEADER:,}")
        header = json.loads(file.read(length))
    if not isinstance(header, dict):
        raise _Wrong("its header is no object")
    header.pop("__metadata__", None)
    places = sorted((_place(key, entry) for key, entry in header.items()), key=lambda p: p[3:])
    end = 0
    for key, _, _, start, stop in places:
        if start != end:
            raise _Wrong(f"the bytes of {key!r} begin at {start} and not at {end}, where those before end")
        end = stop
    if end != size:
        raise _Wrong(f"its tensors have {end:,} bytes and the file {size:,}")
    return {key: _mapped(path, dtype, shape, 8 + length + start) for key, dtype, shape, start, _ in places}


def _place(key: str, entry: Any) -> tuple[str, np.dtype, list[int], int, int]:
    """Name, dtype, shape, first byte and end of a tensor, by its entry in the header."""
    entry = entry if isinstance(entry, dict) else {}
    name, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if name not in _DTYPES:
        raise _Wrong(f"{key!r} has the dtype {name!r}, and there are {', '.join(_DTYPES)}")
    dtype = dtype_of(_DTYPES[name])
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n < 2**62 for n in numbers):
            raise _Wrong(f"the shape or the place of {key!r} is no list of sizes")
    if len(offsets) != 2 or len(shape) > 64 or offsets[1] - offsets[0] != nbytes_of(dtype, shape):
        raise _Wrong(f"{key!r} of shape {shape} and dtype {name} does not fit its place {offsets}")
    return key, dtype, shape, offsets[0], offsets[1]


def _mapped(path: Path, dtype: np.dtype, shape: list[int], offset: int) -> np.ndarray:
    if not math.prod(shape):
        return np.empty(shape, dtype)
    array = np.memmap(path, np.uint8, "r", offset, math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)
    return array if array.flags.aligned else np.array(array)


_READERS = {".npy": _npy, ".npz": _npz, ".safetensors": _safetensors}
