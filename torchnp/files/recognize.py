"""Descriptions of files that are not exported programs, with advice on what to do with them."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

EXPORT = "torch.export.save(torch.export.export(model, args), 'model.pt2')"
_WITH_TORCH = f"with torch, make the module, and write {EXPORT}"
_FROM_SOURCE = f"it cannot be turned back into a module: from the module that it was made of, write {EXPORT}"
_OF_WEIGHTS = f"it has weights and no program: with torch, load them into the module, and write {EXPORT}"
_BEGINNING = 4096  # bytes of a file that are examined

TORCHSCRIPT = f"a TorchScript file (torch.jit.save): {_FROM_SOURCE}"
SAVED = f"a file of torch.save, which holds pickles (a state dict, or a whole module): {_OF_WEIGHTS}"
ARRAYS = "NumPy arrays (numpy.load reads them): they can be inputs of a program, with torchnp run --input NAME=FILE.npy"

# Patterns of the first bytes of a file, and the kind of file.
_BEGINS: list[tuple[re.Pattern[bytes], str]] = [
    (re.compile(rb"....ET\d\d", re.DOTALL), f"a program of ExecuTorch (.pte): {_FROM_SOURCE}"),
    (re.compile(rb"....TFL\d", re.DOTALL), "a model of TensorFlow Lite, which torch did not write"),
    (re.compile(rb".{8}\s*\{\s*\"", re.DOTALL), f"a safetensors file: {_OF_WEIGHTS}"),
    (re.compile(rb"GGUF"), f"a GGUF file (llama.cpp): {_OF_WEIGHTS}"),
    (re.compile(rb"\x93NUMPY"), ARRAYS),
    (re.compile(rb"\x89HDF\r\n"), "an HDF5 file (Keras, h5py), which torch did not write"),
    # The pickled magic number that torch.save wrote before 1.6.
    (re.compile(rb"\x80.\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19", re.DOTALL), SAVED),
    (re.compile(rb"\x80[\x02-\x05]", re.DOTALL), f"a pickle, and nothing is unpickled: {_WITH_TORCH}"),
    (
        re.compile(rb"version https://git-lfs"),
        "a pointer of Git LFS in the place of a file: git lfs pull fetches the file",
    ),
    (
        re.compile(rb"\s*<(!doctype html|html|head)", re.IGNORECASE),
        "a web page: the download has failed, or needs a login",
    ),
    (re.compile(rb"\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd"), "compressed: unpack it first"),
    (re.compile(rb"7z\xbc\xaf|Rar!"), "an archive: unpack it first"),
    (re.compile(rb".{257}ustar", re.DOTALL), "a tar archive: unpack it first"),
    (re.compile(rb"\x7fELF|MZ|\xcf\xfa\xed\xfe"), "machine code, which torchnp does not run"),
    (re.compile(rb"PK\x03\x04"), ""),  # a zip whose end is missing, because it was not recognized as a zip
    # ONNX: the field ir_version, then the producer, the graph or the operator sets.
    (re.compile(rb"\x08[\x01-\x20](\x12|\x1a|\x22|\x3a|\x42|\x28)", re.DOTALL), f"an ONNX model: {_FROM_SOURCE}"),
]
_ENDS = {
    ".onnx": f"no whole ONNX model, and torchnp does not read those: {_FROM_SOURCE}",
    ".pte": f"no program of ExecuTorch that could be told, and torchnp does not read those: {_FROM_SOURCE}",
    ".py": f"Python source: {_WITH_TORCH}",
    ".json": f"a JSON text, not an archive: {_WITH_TORCH}",
    ".mlmodel": f"a model of Core ML: {_FROM_SOURCE}",
    ".engine": f"an engine of TensorRT: {_FROM_SOURCE}",
    ".pb": "a file of TensorFlow, or of ONNX, which torchnp does not read",
}


def recognized(file: IO[bytes], label: str) -> str:
    """Return what kind of file this is, if it is not a zip archive; "" if the kind is unknown.

    Parameters
    ----------
    file : binary file
        The file, which is read from the beginning.
    label : str
        The file's name. Its suffix decides if the content does not.
    """
    length = file.seek(0, io.SEEK_END)
    if not length:
        return "empty: nothing was written to it, or a download has failed"
    file.seek(0)
    head = file.read(_BEGINNING)
    for pattern, what in _BEGINS:
        if pattern.match(head):
            return what
    return _ENDS.get(Path(label).suffix.lower(), "")


def recognized_archive(names: Iterable[str]) -> str:
    """Return what kind of archive a zip is, by its members; "" if the kind is unknown.

    ``torch.export.save`` did not write it.
    """
    inner = {name.partition("/")[2] for name in names}
    outer = {name.partition("/")[0] for name in names}
    if "constants.pkl" in inner and ("bytecode.pkl" in inner or any(n.startswith("code/") for n in inner)):
        return TORCHSCRIPT
    if "data.pkl" in inner:
        return SAVED
    if "serialized_exported_program.json" in outer | inner:
        return "of torch.export.save before torch 2.8: load it with that torch, and export the module with a newer one"
    if "MAR-INF" in outer:
        return f"an archive of TorchServe (.mar): unpack it, and {_WITH_TORCH}"
    if outer and all(name.endswith(".npy") for name in outer):
        return ARRAYS
    if {"config.json", "metadata.json"} <= outer:
        return "a model of Keras, which torch did not write"
    return ""


def recognized_directory(path: str | os.PathLike) -> str:
    """Describe a directory, and say which file to pass instead."""
    names = sorted(os.listdir(path))
    if programs := [name for name in names if name.endswith(".pt2")]:
        return f"a directory: name a file in it, as {Path(path, programs[0])}"
    if "archive_format" in names or "models" in names:
        return "a directory, maybe an archive that was unpacked: name the .pt2 file itself"
    if "config.json" in names or any(name.endswith((".safetensors", ".bin", ".pt", ".pth")) for name in names):
        return f"a directory of a model's weights and settings: {_OF_WEIGHTS}"
    return f"a directory: torchnp.load reads one file, which {EXPORT} writes"


def recognized_object(value: Any) -> str:
    """Describe an object that is neither a path nor a file, and say what to do with it."""
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__}
    if "torch.export.exported_program.ExportedProgram" in kinds:
        return "an exported program: torch.export.save(program, 'model.pt2') writes the file"
    if any(kind.startswith(("torch.jit.", "torch.ScriptModule")) for kind in kinds):
        return f"a TorchScript module: {_FROM_SOURCE}"
    if "torch.nn.modules.module.Module" in kinds:
        return f"a module: {EXPORT} writes the file"
    if isinstance(value, dict):
        return f"a dict, maybe a state dict: {_OF_WEIGHTS}"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes: wrap them in io.BytesIO"
    return f"of type {type(value).__name__}: give a path, or a binary file that can seek"
