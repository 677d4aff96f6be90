"""Files that people give `torchnp.load` but that are no exported programs: each error names the kind of file, and what
to do."""

import io
import pickle
import tarfile
import zipfile

import numpy as np
import pytest
import torch

import torchnp
from torchnp.cli import main
from torchnp.runtime import ProgramError

EXPORT = "torch.export.save(torch.export.export(model, args), 'model.pt2')"
LINEAR = torch.nn.Linear(2, 2)


def scripted(path):
    torch.jit.save(torch.jit.script(LINEAR), path)


def for_mobiles(path):
    torch.jit.script(LINEAR)._save_for_lite_interpreter(str(path))


def saved(path, value, **options):
    torch.save(value, path, **options)


def zipped(path, *names):
    with zipfile.ZipFile(path, "w") as made:
        for name in names:
            made.writestr(name, "")


def tarred(path):
    with tarfile.open(path, "w") as made:
        made.add(__file__)


SAFETENSORS = b'{"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}'
ONNX = bytes([8, 10, 0x12, 7]) + b"pytorch" + bytes([0x3A, 2, 10, 0])
OURS = {
    "model.pt": (scripted, "a TorchScript file", "from the module that it was made of"),
    "model.ptl": (for_mobiles, "a TorchScript file", "from the module that it was made of"),
    "state.pt": (lambda p: saved(p, LINEAR.state_dict()), "a file of torch.save", "load them into the module"),
    "state.pth": (lambda p: saved(p, LINEAR.state_dict(), _use_new_zipfile_serialization=False), "a file of torch.save", "load them"),
    "whole.pt": (lambda p: saved(p, LINEAR), "a file of torch.save", "load them into the module"),
    "model.pte": (lambda p: p.write_bytes(b"\x20\0\0\0ET12" + bytes(64)), "a program of ExecuTorch (.pte)", EXPORT),
    "header.pte": (lambda p: p.write_bytes(b"\x20\0\0\0ET12\x18\0\0\0eh00" + bytes(64)), "a program of ExecuTorch", EXPORT),
    "model.safetensors": (lambda p: p.write_bytes(len(SAFETENSORS).to_bytes(8, "little") + SAFETENSORS + bytes(4)),
      "a safetensors file", "load them"),
    "model.onnx": (lambda p: p.write_bytes(ONNX), "an ONNX model", EXPORT),
    "odd.onnx": (lambda p: p.write_bytes(b"something else"), "does not read those", EXPORT),
    "model.gguf": (lambda p: p.write_bytes(b"GGUF\3\0\0\0" + bytes(64)), "a GGUF file", "load them into the module"),
    "model.h5": (lambda p: p.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64)), "an HDF5 file", "torch did not write"),
    "model.tflite": (lambda p: p.write_bytes(b"\x1c\0\0\0TFL3" + bytes(64)), "TensorFlow Lite", "torch did not write"),
    "model.keras": (lambda p: zipped(p, "config.json", "metadata.json", "model.weights.h5"), "a model of Keras", "torch did not write"),
    "model.mar": (lambda p: zipped(p, "MAR-INF/MANIFEST.json", "model.pt"), "an archive of TorchServe", "unpack it"),
    "old.pt2": (lambda p: zipped(p, "serialized_exported_program.json", "version"), "before torch 2.8",
      "export the module with a newer one"),
    "x.npy": (lambda p: np.save(p, np.ones(3)), "NumPy arrays", "--input NAME=FILE.npy"),
    "x.npz": (lambda p: np.savez(p, a=np.ones(3)), "NumPy arrays", "--input NAME=FILE.npy"),
    "x.pkl": (lambda p: p.write_bytes(pickle.dumps([1])), "a pickle", "nothing is unpickled"),
    "lfs.pt2": (lambda p: p.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"), "Git LFS", "git lfs pull"),
    "page.pt2": (lambda p: p.write_text("<!DOCTYPE html>\n<html>"), "a web page", "download has failed"),
    "model.pt2.gz": (lambda p: p.write_bytes(b"\x1f\x8b\x08\0" + bytes(20)), "compressed", "unpack it"),
    "model.tar": (tarred, "a tar archive", "unpack it"),
    "model.so": (lambda p: p.write_bytes(b"\x7fELF" + bytes(60)), "machine code", "does not run"),
    "model.py": (lambda p: p.write_text("import torch\n"), "Python source", EXPORT),
    "empty.pt2": (lambda p: p.write_bytes(b""), "is empty", "download has failed"),
    "weights": (lambda p: (p.mkdir(), (p / "config.json").write_text("{}"))[0], "a directory of a model's weights",
      "load them into the module"),
    "programs": (lambda p: (p.mkdir(), (p / "m.pt2").write_text(""))[0], "a directory", "m.pt2"),
    "unpacked": (lambda p: (p.mkdir(), (p / "archive_format").write_text("pt2"))[0], "an archive that was unpacked",
      "the .pt2 file itself"),
    "bare": (lambda p: p.mkdir(), "a directory", EXPORT),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", OURS)
def test_it_is_named_with_what_to_do(name, tmp_path, capsys):
    make, what, advice = OURS[name]
    path = tmp_path / name
    make(path)
    with pytest.raises(ProgramError) as said:
        torchnp.load(path)
    assert str(said.value).startswith(f"{path} ") and what in str(said.value) and advice in str(said.value)
    for command in ("run", "requires"):
        assert main([command, str(path)]) == 2
        assert capsys.readouterr().err == f"torchnp {command}: {said.value}\n"
    if path.is_file():
        with path.open("rb") as file, pytest.raises(ProgramError, match="it|that|download|not"):
            torchnp.load(file)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (LINEAR, "this is a module: torch.export.save"),
        (lambda: torch.export.export(LINEAR, (torch.ones(1, 2),)), "this is an exported program: torch.export.save"),
        (lambda: torch.jit.script(LINEAR), "this is a TorchScript module"),
        (LINEAR.state_dict(), "this is a dict, maybe a state dict"),
        (bytearray(b"PK"), "io.BytesIO"),
        (b"PK", "io.BytesIO"),
        (3, "of type int: give a path"),
        (io.StringIO("text"), "open it with 'rb'"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_no_file(value, words):
    with pytest.raises(TypeError) as said:
        torchnp.load(value() if callable(value) and not isinstance(value, torch.nn.Module) else value)
    assert words in str(said.value)
