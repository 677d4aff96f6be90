"""Programs written by each known version of torch: a linear layer, a softmax, a sum, and a dynamic size."""

from pathlib import Path

import numpy as np
import pytest

import torchnp
from torchnp.core.target import KNOWN, spell

PROGRAMS = Path(__file__).parents[1] / "data" / "programs"


@pytest.mark.parametrize("version", map(spell, KNOWN))
@pytest.mark.parametrize("rows", [2, 3, 64])
def test_a_program_of_each_version(version, rows):
    x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3) / 4
    weight = (np.arange(12, dtype=np.float32).reshape(4, 3) - 5) / 8
    bias = (np.arange(4, dtype=np.float32) - 5) / 8
    hidden = np.maximum(x @ weight.T + bias, 0)
    shares, sums, top = torchnp.load(PROGRAMS / f"torch-{version}.pt2")(x)
    exps = np.exp(hidden - hidden.max(-1, keepdims=True))
    np.testing.assert_allclose(shares, exps / exps.sum(-1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(sums, (hidden * np.arange(4)).sum(0, keepdims=True), rtol=1e-5)
    assert top.tolist() == (rows + hidden.argmax(-1)).tolist()


def test_every_file_is_of_a_known_version():
    assert {p.stem for p in PROGRAMS.iterdir()} == {f"torch-{spell(v)}" for v in KNOWN}
