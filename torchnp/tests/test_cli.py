"""The ``torchnp`` command, as a user types it."""

import re
import subprocess
import sys

import numpy as np
import pytest

from torchnp.cli import main
from torchnp.rpc.store import Limits


def test_ops_filters(capsys):
    assert main(["ops", "mul", "--names"]) == 0
    names = capsys.readouterr().out.split()
    assert "aten::mul.Tensor" in names and all(n.startswith("aten::mul.") or n == "prims::mul" for n in names)
    assert main(["ops", "--tag", "core", "--status", "absent", "--names"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["ops", "*", "--tag", "cor"]) == 2
    assert "there are core, " in capsys.readouterr().err
    assert main(["ops", "*", "--family", "reduce"]) == 0
    assert re.search(r"\d+ overloads: \d+ kernel", capsys.readouterr().out)


def test_ops_says_what_is_near(capsys):
    assert main(["ops", "softmx"]) == 2
    assert "nearest: aten::softmax" in capsys.readouterr().err
    assert main(["ops", "*", "--family", "reductions"]) == 2
    assert "no family 'reductions'; there are " in capsys.readouterr().err


@pytest.mark.parametrize("op", ["var.correction", "aten::var.correction", "aten.var.correction", "torch.var"])
def test_explain(op, capsys):
    assert main(["explain", op]) == 0
    out = capsys.readouterr().out
    assert "aten::var.correction(Tensor self" in out
    assert "numpy.var" in out
    assert "float32[] 1.666667" in out  # the difference "correction", with its output


def test_explain_packet_and_derived(capsys):
    assert main(["explain", "add"]) == 0
    out = capsys.readouterr().out
    assert "aten::add.Tensor" in out and "aten::add.Scalar" in out
    assert main(["explain", "add_.Tensor"]) == 0
    assert "derived from aten::add.Tensor (in-place)" in capsys.readouterr().out


def test_explain_unknown_op(capsys):
    assert main(["explain", "softmx"]) == 2
    assert "nearest: aten::softmax" in capsys.readouterr().err


def test_serve_refuses_the_world_without_a_token(capsys):
    assert main(["serve", "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "refusing to listen on 0.0.0.0 without a token" in capsys.readouterr().err


def test_serve_reads_its_options(tmp_path, monkeypatch, capsys):
    told = {}
    monkeypatch.setattr("torchnp.rpc.server.serve", lambda *args, **kwargs: told.update(kwargs, args=args))
    monkeypatch.setenv("TORCHNP_TOKEN", "of-the-environment")
    np.save(tmp_path / "x.npy", np.arange(3.0))
    (tmp_path / "token").write_text("of-the-file\n")
    assert main(["serve"]) == 0
    assert told["args"] == ("127.0.0.1", 7077, "of-the-environment")
    assert (told["limits"], told["max_clients"], told["datasets"]) == (Limits(), 64, {})
    options = ["--token-file", f"{tmp_path}/token", "--dataset", f"x={tmp_path}/x.npy", "--max-bytes", "1.5G"]
    assert main(["serve", *options, "--max-objects", "10", "--max-clients", "2", "--max-memory", "8GiB"]) == 0
    assert told["args"][2] == "of-the-file"
    assert told["limits"] == Limits(3 << 29, 10)
    assert (told["max_clients"], told["max_memory"], told["datasets"]["x"].tolist()) == (2, 8 << 30, [0, 1, 2])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--port", "70000"], "--port 70000 is not between"),
        (["--token", "a", "--token-file", "b"], "not both"),
        (["--token-file", "nosuch"], "--token-file nosuch: No such file"),
        (["--token", ""], "a token has 1 to 1024 bytes"),
        (["--dataset", "x"], "write NAME=FILE.npy"),
        (["--dataset", "x=nosuch.npy"], "--dataset x=nosuch.npy: No such file"),
        (["--dataset", "x=README.md"], "this is no .npy file of numbers"),
        (["--dataset", "x=strings.npy"], "arrays have a dtype of torch's"),
        (["--max-clients", "0"], "max_clients is at least 1"),
    ],
)
def test_serve_says_what_is_wrong(options, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("text")
    np.save("strings.npy", np.array(["a"]))
    assert main(["serve", *options]) == 2
    assert said in capsys.readouterr().err


def test_serve_takes_counts_and_bytes(capsys):
    for option, bad in (("--max-bytes", "much"), ("--max-bytes", "-1"), ("--max-objects", "-5")):
        with pytest.raises(SystemExit):
            main(["serve", f"{option}={bad}"])
        assert bad in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["ops"], ["explain"], ["serve"], ["demo"]])
def test_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    assert "usage: torchnp" in capsys.readouterr().out


def test_python_m():
    found = subprocess.run([sys.executable, "-m", "torchnp", "--version"], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("torchnp ")


def test_nonsense_is_refused_in_a_line(capsys):
    assert main(["demo", "--epochs", "0"]) == 2
    assert "at least 1" in capsys.readouterr().err
    assert main(["demo", "--seed", "-1"]) == 2
    assert "--seed must be" in capsys.readouterr().err
    assert main(["serve", "--port", "99999"]) == 2
    assert "--port 99999" in capsys.readouterr().err
