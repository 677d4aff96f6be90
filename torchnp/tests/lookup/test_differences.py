"""Every entry of the catalogue is run: torch's value, NumPy's value, that the two differ, and the kernel's value."""

import numpy as np
import pytest
import torch

from torchnp.difference_catalogue import CATALOGUE
from torchnp.differences import Difference, evaluate, run, show


@pytest.mark.parametrize("difference", CATALOGUE.values(), ids=CATALOGUE)
def test_difference(difference):
    values = run(difference)
    torchs, numpys = difference.torch_value, difference.numpy_value
    assert torchs != numpys
    if not difference.holds():  # both libraries give the same value
        torchs = numpys = numpys if difference.of_torch else torchs
    assert values["torch"] == torchs
    assert values["numpy"] == numpys
    if "Error:" in torchs:
        # errors begin with torch's words, and may continue
        assert values["kernel"].split()[:6] == torchs.split()[:6]
    else:
        assert values["kernel"] == torchs


@pytest.mark.parametrize("difference", CATALOGUE.values(), ids=CATALOGUE)
def test_advice_gives_the_other_library_value(difference):
    if difference.in_numpy:
        assert run(difference, ["in_numpy"])["in_numpy"] == difference.torch_value
    if difference.in_torch and difference.holds():
        assert run(difference, ["in_torch"])["in_torch"] == difference.numpy_value


@pytest.mark.parametrize(
    "version, held", [("1.9.3", [True, False]), ("2.0.0", [False, True]), ("2.10.1", [False, True])]
)
def test_a_difference_of_some_versions(monkeypatch, version, held):
    monkeypatch.setattr(np, "__version__", version)
    shown = [Difference("i", "t", "1", "1", "2", "2", "1", where=w) for w in ("numpy<2.0", "numpy>=2.0")]
    assert [d.holds() for d in shown] == held
    assert str(shown[0]).endswith("2  (numpy<2.0)")


def test_show_is_alike_for_tensors_and_arrays():
    assert show(torch.tensor([1.0, 2.5])) == show(np.array([1, 2.5], np.float32)) == "float32[2] [1, 2.5]"
    assert show(torch.tensor(True)) == show(np.array(True)) == "bool[] True"
    assert show((torch.tensor(1), 2)) == "(int64[] 1, 2)"


def test_evaluate_shows_errors():
    assert evaluate("np.zeros(2) + np.zeros(3)", np=np).startswith("ValueError: operands could not be broadcast")
