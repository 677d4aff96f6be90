"""The ``torchnp`` command, as a user types it."""

import json
import re
import subprocess
import sys

import pytest

import torchnp
from torchnp.cli import main


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
    assert "nearest: softmax" in capsys.readouterr().err
    assert main(["ops", "*", "--family", "reductions"]) == 2
    assert "no family 'reductions'; there are " in capsys.readouterr().err


@pytest.mark.parametrize("op", ["var.correction", "aten::var.correction", "aten.var.correction", "torch.var"])
def test_explain(op, capsys):
    assert main(["explain", op]) == 0
    out = capsys.readouterr().out
    assert "aten::var.correction(Tensor self" in out
    assert "is np.var in NumPy" in out
    assert "float32[] 1.666667" in out  # the difference "correction", with its output


def test_explain_packet_and_derived(capsys):
    assert main(["explain", "add"]) == 0
    out = capsys.readouterr().out
    assert "aten::add.Tensor" in out and "aten::add.Scalar" in out
    assert main(["explain", "add_.Tensor"]) == 0
    assert "derived from aten::add.Tensor (in-place)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "op", ["F.relu", "nn.functional.relu", "torch.nn.functional.relu", "Tensor.relu", "torch.relu"]
)
def test_explain_takes_names_as_python_code_spells_them(op, capsys):
    assert main(["explain", op]) == 0
    assert "\n  aten::relu(Tensor self) -> Tensor\n" in capsys.readouterr().out


def test_explain_a_numpy_function(capsys):
    for spelled in ("np.var", "numpy.var"):
        assert main(["explain", spelled]) == 0
        out = capsys.readouterr().out
        assert out.startswith("np.var  is torch.var\n") and "aten::var.correction(" in out
        assert "aten::std" not in out
    assert main(["explain", "np.linalg.det"]) == 0
    assert "aten::linalg_det(" in capsys.readouterr().out
    assert main(["explain", "np.nosuch"]) == 2
    assert "no name 'np.nosuch' is known" in capsys.readouterr().err
    assert main(["explain", "np.busday_count"]) == 0
    assert "works on dates or strings" in capsys.readouterr().out


def test_explain_as_json(capsys):
    assert main(["explain", "--json", "np.var"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["op"] == "aten::var" and told["kind"] == "numpy"
    (first, *_) = told["differences"]
    assert (first["id"], first["torch_value"], first["numpy_value"]) == (
        "correction",
        "float32[] 1.666667",
        "float32[] 1.25",
    )


def test_ops_as_json(capsys):
    assert main(["ops", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == len(torchnp.table.schemas)
    (row,) = (r for r in rows if r["name"] == "aten::add_.Tensor")
    assert (row["status"], row["derived_from"], row["numpy"]) == ("derived", "aten::add.Tensor", "numpy.add")


@pytest.mark.parametrize("command", [["explain", "np.var"], ["explain", "np.vra"], ["ops", "--json"]])
def test_answers_come_without_the_kernels(command):
    code = f"import sys; from torchnp.cli import main; main({command!r}); print({{'torch', 'torchnp.core.table'}} & {{*sys.modules}})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.stdout.endswith("set()\n")


def test_explain_sends_patterns_to_ops(capsys):
    assert main(["explain", "var*"]) == 2
    assert "torchnp ops 'var*' lists" in capsys.readouterr().err


def test_one_overload_is_one(capsys):
    assert main(["ops", "bincount.out"]) == 0
    assert capsys.readouterr().out.endswith("\n1 overload: 1 derived\n")


def test_a_reader_that_leaves_ends_the_list_quietly():
    command = [sys.executable, "-m", "torchnp", "ops"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as found:
        found.stdout.readline()
        found.stdout.close()
        assert (found.wait(60), found.stderr.read()) == (0, b"")


def without(modules, code):
    """Return a program's stderr and exit status in an environment without some packages."""
    code = f"import sys; sys.modules.update(dict.fromkeys({modules!r})); sys.argv = ['torchnp']\n{code}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    return found.stderr.splitlines()[-1:], found.returncode


EXTRAS = ["torch", "rich", "msgspec", "sklearn", "cloudpickle", "expecttest"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("serve", "needs the package msgspec: pip install 'torchnp[rpc]'"),
        ("demo", "needs the packages torch, msgspec, rich and scikit-learn: pip install 'torchnp[demo]'"),
        (
            "conform",
            "needs the packages torch, rich, cloudpickle and expecttest: pip install 'torchnp[test]'",
        ),
    ],
)
def test_commands_name_all_that_is_missing(command, said):
    code = f"from torchnp.cli import main; sys.exit(main([{command!r}]))"
    assert without(EXTRAS, code) == ([f"torchnp {command}: {said}"], 2)


def test_ops_needs_no_extras():
    assert without(EXTRAS, "from torchnp.cli import main; sys.exit(main(['ops', 'var']))") == ([], 0)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import torchnp.interop", "torchnp.interop needs the package torch: pip install 'torchnp[torch]'"),
        (
            "from torchnp import rpc; rpc.local()",
            "torchnp.rpc.local needs the packages torch and msgspec: pip install 'torchnp[torch,rpc]'",
        ),
        (
            "from torchnp.rpc import connect",
            "torchnp.rpc.connect needs the packages torch and msgspec: pip install 'torchnp[torch,rpc]'",
        ),
        (
            "from torchnp import rpc; rpc.serve()",
            "torchnp.rpc.serve needs the package msgspec: pip install 'torchnp[rpc]'",
        ),
    ],
)
def test_imports_name_all_that_is_missing(code, said):
    assert without(EXTRAS, code) == ([f"ModuleNotFoundError: {said}"], 1)


@pytest.mark.parametrize("command", ["demo", "conform", "serve"])
def test_an_interrupt_during_the_imports_of_a_command(command):
    code = """
import builtins, sys
from torchnp.cli import main
theirs = builtins.__import__
def interrupted(name, *args, **kwargs):
    if name in ("torchnp.demo", "opinfo_tests.__main__", "torchnp.rpc.server.transports.server"):
        raise KeyboardInterrupt
    return theirs(name, *args, **kwargs)
builtins.__import__ = interrupted
sys.exit(main(sys.argv[1:]))
"""
    found = subprocess.run([sys.executable, "-c", code, command], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stderr) == (130, "interrupted\n")


def test_the_command_line_itself_loads_little():
    code = (
        "import sys, torchnp.cli; print({'torchnp.core.table', 'torch', 'scipy', 'rich', 'msgspec'} & {*sys.modules})"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_explain_unknown_op(capsys):
    assert main(["explain", "softmx"]) == 2
    assert "nearest: softmax" in capsys.readouterr().err


def test_serve_refuses_the_world_without_a_token(capsys):
    assert main(["serve", "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "refusing to listen on 0.0.0.0 without a token" in capsys.readouterr().err


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
