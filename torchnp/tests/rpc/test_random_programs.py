"""Random programs behave the same on handles as on plain tensors: values, gradients, versions, metadata, and errors."""

from __future__ import annotations

import random

import pytest

from torchnp import rpc
from torchnp.tests.rpc import random_torch_programs


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_programs(first):
    for seed in range(first, first + 50):
        with rpc.local() as session:
            said = random_torch_programs.compare(seed, session)
            session.channel.close()
        assert not said, said


@pytest.mark.filterwarnings("ignore")
def test_programs_have_all_kinds_of_lines():
    lines = [line for seed in range(200) for line in random_torch_programs.drawn(seed)]
    for part in (
        ".mT",
        "[",
        "mul_",
        "backward",
        "autograd.grad",
        "conj",
        ".imag",
        "out=",
        "split",
        "cat",
        "where",
        "@",
    ):
        assert any(part in line for line in lines), part


def test_a_difference_is_found_and_cut_down(monkeypatch):
    """With a wrong relu on handles, the program that is shown has only the lines that lead to the difference."""
    monkeypatch.setattr(rpc.RPCTensor, "relu", rpc.RPCTensor.neg, raising=False)
    wrong = ["v8 = send(torch.arange(3.0), False)", "v9 = v8.relu()"]
    lines = [*random_torch_programs.beginning(random.Random(1)), *wrong, "v10 = v8 + 1"]
    with rpc.local() as session:
        assert random_torch_programs.difference(lines, session)
        assert random_torch_programs.shortened(lines, session) == wrong
