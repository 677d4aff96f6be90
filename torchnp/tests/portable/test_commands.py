"""``torchnp run --xp``, ``torchnp requires --xp`` and ``torchnp export-stablehlo``."""

import json
from pathlib import Path

import numpy as np
import pytest

import torchnp
from torchnp.cli import main
from torchnp.tests.portable.exported import example

CONVNET = str(Path(__file__).parents[1] / "data" / "convnet.pt2")


@pytest.fixture
def x(tmp_path):
    np.save(tmp_path / "x.npy", np.linspace(-1, 1, 3 * 36, dtype=np.float32).reshape(3, 1, 6, 6))
    return str(tmp_path / "x.npy")


@pytest.mark.parametrize("xp", ("array_api_strict", "jax"))
def test_run(x, xp, tmp_path):
    pytest.importorskip(xp)
    out = str(tmp_path / "y.npy")
    assert main(["run", CONVNET, "--xp", xp, "--input", f"input={x}", "--output", out]) == 0
    np.testing.assert_allclose(np.load(out), torchnp.load(CONVNET)(np.load(x)), rtol=0, atol=1e-6)


def test_run_on_no_library(x, capsys):
    assert main(["run", CONVNET, "--xp", "no_such_library", "--input", f"input={x}"]) == 2
    assert "no_such_library" in capsys.readouterr().err


def test_requires(capsys):
    assert main(["requires", CONVNET, "--xp", "array_api_strict"]) == 0
    assert "5 calls of 5: 5 standard" in capsys.readouterr().out


def test_requires_as_json(tmp_path, capsys):
    (tmp_path / "m.pt2").write_bytes(example("datadep").archive)
    assert main(["requires", str(tmp_path / "m.pt2"), "--xp", "array_api_strict", "--json"]) == 0
    told = {row["name"]: row for row in json.loads(capsys.readouterr().out)["operators"]}
    assert told["aten::nonzero"]["tier"] == "eager" and told["aten::sum.dim_IntList"]["tier"] == "standard"


def test_requires_of_two_kinds(capsys):
    assert main(["requires", CONVNET, "--xp", "array_api_strict", "--backend", "table"]) == 2
    assert "--xp and --backend" in capsys.readouterr().err


def test_export_stablehlo(x, tmp_path, capsys):
    pytest.importorskip("flatbuffers")  # jax.export serializes with it
    serialized = pytest.importorskip("jax.export")
    out = tmp_path / "m.stablehlo"
    assert main(["export-stablehlo", CONVNET, "--platforms", "cpu,tpu", "--out", str(out)]) == 0
    assert "takes input float32[" in capsys.readouterr().out
    again = serialized.deserialize(bytearray(out.read_bytes()))
    assert again.platforms == ("cpu", "tpu")
    given = np.load(x)[:2]
    np.testing.assert_allclose(again.call(given), torchnp.load(CONVNET)(given), rtol=0, atol=1e-6)


def test_run_on_a_cluster(x, tmp_path, monkeypatch):
    monkeypatch.setattr("torchnp.portable.cluster._CHUNK", 150)  # one row
    pytest.importorskip("dask.array")
    distributed = pytest.importorskip("distributed")
    out = str(tmp_path / "y.npy")
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
        command = ["run", CONVNET, "--dask", cluster.scheduler_address, "--input", f"input={x}", "--output", out]
        assert main(command) == 0
    np.testing.assert_allclose(np.load(out), torchnp.load(CONVNET)(np.load(x)), rtol=0, atol=1e-6)


def test_a_cluster_runs_dask(x, capsys):
    assert main(["run", CONVNET, "--dask", "tcp://127.0.0.1:1", "--xp", "jax", "--input", f"input={x}"]) == 2
    assert "--dask takes neither another --xp" in capsys.readouterr().err
