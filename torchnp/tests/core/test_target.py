"""The version of torch that the table describes."""

import os
import pickle
import re
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
import torch

import torchnp
from torchnp.cli import main
from torchnp.core import target
from torchnp.core.schema import DATA, load, of_any_version

VERSIONS = [target.spell(v) for v in target.KNOWN]


def in_process(code, **environment):
    env = os.environ | environment
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_file_names_the_known_versions():
    head = DATA.read_text(encoding="utf-8").partition("\n")[0]
    assert f"torch {' '.join(VERSIONS)}:" in head


def test_the_installed_version_is_described():
    assert torchnp.target() == ".".join(torch.__version__.split(".")[:2])
    assert torchnp.table.schemas.keys() >= load(target.parse(torch.__version__)).keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_table_for(version):
    table = torchnp.table_for(version)
    assert table is torchnp.table_for(version)
    assert set(table.schemas) >= set(load(target.known(version)))
    assert not any(table.status(name) == "absent" for name in load(target.known(version)))
    x = table["aten::add.Tensor"](np.ones(2, np.float32), 1)
    assert x.dtype == np.float32 and x.tolist() == [2, 2]


def test_a_fixed_table_follows_its_version_in_each_thread():
    found = {}

    def ask(version):
        arange = torchnp.table_for(version)["aten::arange"]
        found[version] = {arange(3.1, dtype="int64").size for _ in range(200)}

    threads = [threading.Thread(target=ask, args=(v,)) for v in ("2.13", "2.14") * 2]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {"2.13": {3}, "2.14": {4}}
    assert target.current() == target.parse(torch.__version__)


def test_what_only_some_versions_have():
    assert "aten::qr" in torchnp.table_for("2.13") and "aten::qr" not in torchnp.table_for("2.14")
    assert "aten::linalg_polar" not in torchnp.table_for("2.13") and "aten::linalg_polar" in torchnp.table_for("2.14")
    words = "torch 2.13 registers no such overload; 2.14 and 2.15 do: torchnp.table_for('2.15')"
    with pytest.raises(KeyError, match=re.escape(words)):
        torchnp.table_for("2.13")["aten::linalg_polar"]
    assert {"aten::qr", "aten::linalg_polar", "aten::cat.names"} <= of_any_version().keys()


@pytest.mark.parametrize("version", ["2.13", "2.14"])
def test_arguments_of_both_names(version):
    schema = load(target.known(version))["aten::_pdist_backward"]
    x = np.arange(6.0).reshape(3, 2)
    given = dict(
        zip((a.name for a in schema.args), (np.ones(3), x, 2.0, torch.pdist(torch.from_numpy(x)).numpy()), strict=True)
    )
    found = torchnp.table_for(version)["aten::_pdist_backward"](**given)
    assert np.allclose(found.sum(), 0)


def test_target_changes_the_table():
    code = "import torchnp; print(torchnp.target('2.14'), 'aten::qr' in torchnp.table, hasattr(torchnp.aten, 'linalg_polar')); "
    code += "a = torchnp.aten; print(torchnp.target('2.13'), 'aten::qr' in torchnp.table, hasattr(a, 'linalg_polar')); "
    code += "print(a.arange(3.1, dtype='int64').size); torchnp.target('2.15'); print(a.arange(3.1, dtype='int64').size)"
    assert in_process(code).split("\n") == ["2.14 False True", "2.13 True False", "3", "4"]


def test_the_environment_sets_it():
    assert in_process("import torchnp; print(torchnp.target())", TORCHNP_TARGET="2.12") == "2.12"
    code = "import torchnp\ntry:\n    torchnp.table\nexcept ValueError as e:\n    print(e)"
    assert (
        in_process(code, TORCHNP_TARGET="1.0") == f"TORCHNP_TARGET: torchnp knows torch {', '.join(VERSIONS)}, not 1.0"
    )


def test_the_command_refuses_another(monkeypatch, capsys):
    monkeypatch.setenv("TORCHNP_TARGET", "later")
    assert main(["ops"]) == 2
    assert capsys.readouterr().err == "torchnp: TORCHNP_TARGET: 'later' is not a version of torch, such as '2.15'\n"


@pytest.mark.parametrize(
    ("here", "nearest"), [("2.99.0+cpu", VERSIONS[-1]), ("1.13.1", VERSIONS[0]), ("2.13.7", "2.13")]
)
def test_another_torch_works_and_says_so(monkeypatch, here, nearest):
    monkeypatch.delenv("TORCHNP_TARGET", raising=False)
    monkeypatch.setattr(target, "installed", lambda: here)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert target.spell(target.default()) == nearest
    assert bool(said) == (here != "2.13.7")
    assert all(f"torch {here} is installed" in str(w.message) and "opinfo_tests" in str(w.message) for w in said)


def test_without_torch_it_is_the_newest(monkeypatch):
    monkeypatch.delenv("TORCHNP_TARGET", raising=False)
    monkeypatch.setattr(target, "installed", lambda: None)
    assert target.default() == target.KNOWN[-1]


def test_the_installed_version_is_found_without_an_import():
    code = "import sys; from torchnp.core import target; print(target.installed(), 'torch' in sys.modules)"
    assert in_process(code) == f"{torch.__version__} False"


def test_pickle():
    assert pickle.loads(pickle.dumps(torchnp.table_for("2.14"))) is torchnp.table_for("2.14")
    with pytest.raises(ValueError, match="not 3.0"):
        torchnp.table_for("3.0")
