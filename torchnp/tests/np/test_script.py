"""``python -m torchnp.np``: the output is the script's own, and the report names the lines whose results differ."""

import subprocess
import sys

import pytest

from torchnp.np.script import run_script

SAME = """
import numpy as np
from numpy.linalg import norm
x = np.arange(12.0).reshape(3, 4)
x[1] += 1
x[:, ::2] = x[:, ::-1][:, ::2]
assert isinstance(x, np.ndarray) and x.dtype == np.float64 and x.T.shape == (4, 3)
print(x.mean(axis=0), norm(x).round(3), np.median(x), x[x > 5].sum(), [int(v) for v in np.argsort(-x[0])])
print(np.r_[1:3, 5.0], f"{x.max():.1f}", len(x), np.float32(2) * x[0, 0], np.linspace(0, 1, 3, dtype=np.float32))
h, edges = np.histogram(x, bins=3)
print(h, edges, np.percentile(x, [10, 50]))
"""
PARTING = """
import numpy as np
x = np.full(100000, 0.1, np.float32)
y = np.cumsum(x)
z = np.random.default_rng(0).normal(size=3)
print(len(y))
"""


def test_output_is_the_same(tmp_path, capsys):
    file = tmp_path / "same.py"
    file.write_text(SAME)
    report = run_script(str(file))
    mine = capsys.readouterr().out
    theirs = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True).stdout
    assert mine == theirs
    assert report.partings == {}
    assert report.calls["histogram"] == 1


def test_lines_that_part(tmp_path, capsys):
    file = tmp_path / "parting.py"
    file.write_text(PARTING)
    report = run_script(str(file))
    assert capsys.readouterr().out == "100000\n"
    assert {(p.line, p.name, p.by_numpy) for p in report.partings.values()} == {
        (4, "np.cumsum", False), (5, "np.random.default_rng", True),
    }  # fmt: skip
    text = "\n".join(report.lines())
    assert "1 line parts, 1 need NumPy" in text and "elements differ" in text and "draws NumPy's random stream" in text
    assert "np.cumsum: cumsum-needs-dim" in text


def test_errors_of_the_script_are_its_own(tmp_path):
    file = tmp_path / "fails.py"
    file.write_text("import numpy as np\nnp.zeros(3).reshape(2, 2)\n")
    with pytest.raises(ValueError, match="cannot reshape array of size 3 into shape"):
        run_script(str(file))
