"""``torchnp run`` and ``torchnp requires``, as a user types them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

import torchnp
from opinfo_tests import Table
from torchnp.cli import main
from torchnp.tests.runtime import exported

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
CONVNET = str(Path(__file__).parents[1] / "data" / "convnet.pt2")


def save(path, name):
    path.write_bytes(exported.archive(exported.export(name)).getvalue())
    return str(path)


@pytest.fixture
def x(tmp_path):
    file = tmp_path / "x.npy"
    np.save(file, np.linspace(-1, 1, 3 * 36, dtype=np.float32).reshape(3, 1, 6, 6))
    return str(file)


def test_run(x, tmp_path, capsys):
    out = str(tmp_path / "y.npy")
    assert main(["run", CONVNET, "--input", f"input={x}", "--output", out]) == 0
    assert capsys.readouterr().out == ""
    assert np.array_equal(np.load(out), torchnp.load(CONVNET)(np.load(x)))
    assert main(["run", CONVNET, "--input", f"input={x}", "--profile"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "result  float32[3, 4]" and lines[1].split() == ["operator", "calls", "ms", "share"]
    assert {line.split()[0] for line in lines[2:]} >= {"aten::conv2d", "aten::linear"}


def test_run_several_results(tmp_path, capsys):
    model = save(tmp_path / "m.pt2", "sizes")
    for name, value in (("x", np.ones((6, 3), "f4")), ("pair_0", np.ones(2, "f4")), ("pair_1", np.ones(6, "f4"))):
        np.save(tmp_path / name, value)
    given = [f"--input={n}={tmp_path / n}.npy" for n in ("x", "pair_0", "pair_1")]
    assert main(["run", model, *given, "--input", "k=5", "--output", str(tmp_path / "y.npz")]) == 0
    results = np.load(tmp_path / "y.npz")
    assert results["1"].shape == (7, 5) and results["3.0"] == 6 and "3.2" not in results
    assert main(["run", model, *given, "--input", "k=5", "--output", str(tmp_path / "y.npy")]) == 2
    assert "gives 6 results (0, 1, 2, 3.0, 3.1, 3.3): write them to a .npz file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["file", "allow_pickle", "../up", "a\\b", "\x1b[31m", "x" * 70_000])
def test_run_results_of_odd_names(name, x, tmp_path, capsys):
    from torchnp.tests.runtime.test_hostile_archives import CALL, LEAF, MODEL, setter, with_json

    spec = {"type": "builtins.dict", "context": json.dumps([name]), "children_spec": [json.loads(LEAF)]}
    (tmp_path / "m.pt2").write_bytes(with_json(MODEL, setter(json.dumps([1, spec]), *CALL, "out_spec")))
    status = main(["run", str(tmp_path / "m.pt2"), "--input", f"input={x}", "--output", str(tmp_path / "y.npz")])
    if name in ("file", "allow_pickle"):
        assert status == 0
        with np.load(tmp_path / "y.npz") as results:
            assert np.array_equal(results[name], torchnp.load(CONVNET)(np.load(x)))
    else:
        assert status == 2 and "which no file should have" in capsys.readouterr().err
        assert not (tmp_path / "y.npz").exists()


def test_run_a_dtype_that_files_have_no_name_for(tmp_path, capsys):
    program = torch.export.export(torch.nn.Tanh(), (torch.zeros(3, dtype=torch.bfloat16),))
    (tmp_path / "m.pt2").write_bytes(exported.archive(program).getvalue())
    np.save(tmp_path / "x.npy", np.zeros(3, ml_dtypes.bfloat16))
    assert main(["run", str(tmp_path / "m.pt2"), "--input", f"input={tmp_path / 'x.npy'}"]) == 0
    assert capsys.readouterr().out == "result  bfloat16[3]\n"


@pytest.mark.parametrize(
    "given, words",
    [
        ([], "no value for the input 'input'; the program takes input (float32[s31, 1, 6, 6])"),
        (["--input", "y={x}", "--input", "input={x}"], "no input 'y'; it takes input"),
        (["--input", "input"], "--input input: write NAME=FILE"),
        (["--input", "input={x}", "--input", "input={x}"], "there are two of the name 'input'"),
        (["--input", "input=nowhere.npy"], "nowhere.npy: No such file"),
        (["--input", f"input={__file__}"], "is no .npy file of numbers"),
        (["--input", "input={x}", "--output", "y.txt"], "neither a .npy nor a .npz file"),
    ],
)
def test_run_says_what_is_wrong(given, words, x, capsys):
    assert main(["run", CONVNET, *(text.format(x=x) for text in given)]) == 2
    assert words in capsys.readouterr().err


def test_a_file_that_is_no_program(tmp_path, capsys):
    (tmp_path / "m.pt2").write_bytes(b"no")
    for command in ("run", "requires"):
        assert main([command, str(tmp_path / "m.pt2")]) == 2
        assert f"torchnp {command}: {tmp_path / 'm.pt2'} is no zip archive" in capsys.readouterr().err
        assert main([command, str(tmp_path / "n.pt2")]) == 2
        assert "n.pt2: No such file" in capsys.readouterr().err


def test_requires(capsys):
    assert main(["requires", CONVNET]) == 0
    out = capsys.readouterr().out
    assert "aten::conv2d" in out and "correlation" in out and "5 calls of 5: " in out
    assert main(["requires", CONVNET, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    conv = next(r for r in told["operators"] if r["name"] == "aten::conv2d")
    assert told["runs"] and conv["status"] == "composite" and conv["dtypes"] == ["float32"] and conv["count"] == 1
    assert set(conv["differences"]) == {d.id for d in torchnp.table["aten::conv2d"].differences}


def test_requires_of_a_program_that_does_not_run(tmp_path, capsys):
    class Autocast(torch.nn.Module):
        def forward(self, x):
            with torch.autocast("cpu"):
                return x.sin()

    (tmp_path / "m.pt2").write_bytes(exported.archive(torch.export.export(Autocast(), (torch.ones(3),))).getvalue())
    assert main(["requires", str(tmp_path / "m.pt2")]) == 1
    out = capsys.readouterr().out
    # Within the higher-order operator.
    assert "torchnp does not run torch.ops.higher_order.wrap_with_autocast" in out and "aten::sin" in out
    assert main(["run", str(tmp_path / "m.pt2")]) == 2
    assert "torch.ops.higher_order.wrap_with_autocast: a higher-order operator" in capsys.readouterr().err


MINE = {"aten::relu": np.abs, "aten::batch_norm": np.abs, "aten::flatten.using_ints": np.abs}


class Floats(Table):
    """A backend without float32."""

    dtypes = frozenset({"float64"})


def doubles():
    return Floats(MINE, "doubles")


def test_what_a_backend_lacks(capsys):
    here = "torchnp.tests.runtime.test_commands"
    assert main(["requires", CONVNET, "--backend", f"{here}:MINE"]) == 0  # torch decomposes the other two
    out = capsys.readouterr().out
    assert f"{here}:MINE lacks nothing\nit has no kernel of aten::conv2d, aten::linear: run_decomp" in out
    assert main(["requires", CONVNET, "--backend", f"{here}:doubles", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["runs"] and told["lacks"] == ["aten::batch_norm", "aten::flatten.using_ints", "aten::relu"]
    assert {r["backend"] for r in told["operators"]} == {"lacks float32", "composite"}
    for name, what in (("table", "table lacks nothing"), ("torch-cpu", "torch-cpu lacks nothing")):
        assert main(["requires", CONVNET, "--backend", name]) == 0
        out = capsys.readouterr().out
        assert what in out and "no kernel of" not in out
    assert main(["requires", CONVNET, "--backend", "nobody"]) == 2
    assert "no backend 'nobody'; there are table, " in capsys.readouterr().err


def test_what_a_backend_lacks_of_kernels(tmp_path, capsys):
    (tmp_path / "m.pt2").write_bytes(exported.archive(exported.export("sizes").run_decompositions()).getvalue())
    assert main(["requires", str(tmp_path / "m.pt2"), "--backend", f"{__name__}:MINE"]) == 1
    out = capsys.readouterr().out
    assert re.search(r":MINE lacks .*aten::full.*aten::mul.Tensor", out) and "_operator." in out
    assert not re.search(r"lacks .*_operator", out)


ALONE = """
import sys
sys.modules["torch"] = sys.modules["cloudpickle"] = None
from torchnp.cli import main
sys.exit(main(["requires", sys.argv[1], "--backend", sys.argv[2]]))
"""


def test_a_backend_of_functions_is_asked_without_torch(tmp_path):
    (tmp_path / "mine.py").write_text("mine = {'aten::relu': abs}")
    done = subprocess.run(
        [sys.executable, "-c", ALONE, CONVNET, "mine:mine"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "mine:mine lacks nothing" in done.stdout, done.stderr
    done = subprocess.run(
        [sys.executable, "-c", ALONE, CONVNET, "torch-cpu"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2 and "backend 'torch-cpu': import of torch halted" in done.stderr
