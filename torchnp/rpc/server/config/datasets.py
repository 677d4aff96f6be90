"""Load an owner's arrays: .npy and .safetensors files are memory-mapped, .npz files unpacked; nothing is unpickled."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from torchnp.files.malformed import Malformed
from torchnp.files.read_arrays import READERS, read_arrays

_ONE_OF = re.compile(r"(.+\.(?:npz|safetensors)):(.+)", re.IGNORECASE)


def load(name: str, file: str, folder: Path = Path()) -> dict[str, np.ndarray]:
    """Load the arrays of a ``NAME = FILE`` setting.

    Parameters
    ----------
    name : str
        Name of the array. For a file with several arrays, the name before the dot: each array is called ``name.key``.
    file : str
        ``FILE.npy``, ``FILE.npz`` or ``FILE.safetensors``, or ``FILE.npz:KEY`` for one of several arrays.
    folder : Path
        Directory to which the file name is relative.

    Raises
    ------
    ValueError
        The file does not exist, or its content does not match its suffix.
    """
    found = _ONE_OF.fullmatch(file)
    file, key = found.groups() if found else (file, None)
    if Path(file).suffix.lower() not in READERS:
        raise ValueError(f"{file} has to end in {', '.join(READERS)}")
    try:
        arrays = read_arrays(folder / file)
    except (OSError, Malformed) as error:
        raise ValueError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    if key is not None:
        if key not in arrays:
            raise ValueError(f"{file} has no array {key!r}; it has {', '.join(sorted(arrays)) or 'none'}")
        arrays = {"": arrays[key]}
    for key, array in arrays.items():
        if array.dtype.type is np.void:
            raise ValueError(
                f"{file}: the dtype {array.dtype} {f'of {key!r} ' if key else ''}has no name in NumPy's files: "
                "write bfloat16 and float8 to a .safetensors file"
            )
    return {f"{name}.{key}" if key else name: _native(array) for key, array in arrays.items()}


def _native(array: np.ndarray) -> np.ndarray:
    """Convert an array to native byte order, and all its bools to bytes of 0 or 1."""
    if array.dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
        return array.view(np.uint8) != 0
    return array.astype(array.dtype.newbyteorder("="), copy=False)
