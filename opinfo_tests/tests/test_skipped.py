"""No option skips anything silently: calls that a run leaves out are counted and named in its last line."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import opinfo_tests
import torchnp
from opinfo_tests.backends.load import as_backend, load_backend
from opinfo_tests.generate.samples.recording import freeze
from opinfo_tests.run import command
from opinfo_tests.run.skipped import near, of_other_dtypes

ADD = torchnp.table["aten::add.Tensor"]


def without_alpha(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    return ADD(self, other)


WITHOUT_ALPHA = {"aten::add.Tensor": without_alpha}
RIGHT = {torch.ops.aten.add.Tensor: ADD}
SEVERAL = {torch.ops.aten.add: ADD}
QUICK = ["--tier", "quick", "--jobs", "0", "--ops", "aten::add.Tensor"]


def ran(capsys: pytest.CaptureFixture, backend: str, *options: str) -> tuple[int, list[str]]:
    status = command.main(["--backend", f"{__name__}:{backend}", *QUICK, *options])
    return status, capsys.readouterr().out.splitlines()


def test_dtypes_leave_the_draws_on(capsys):
    status, lines = ran(capsys, "WITHOUT_ALPHA", "--dtypes", "float32")
    assert status == 1 and any("without alpha" in line for line in lines)
    last = lines[-1]
    assert last.startswith("skipped: ") and re.search(r"[1-9][\d,]* drawn calls of \d+ other dtypes \(--dtypes\)", last)
    assert "the inputs that torch refuses of 1 sample entry (--dtypes)" in last
    assert re.search(r"some [1-9][\d,]* calls of samples \(--tier quick\)", last)
    assert "strides of all results" in last


def test_each_option_says_what_it_leaves_out(capsys):
    options = ["--dtypes", "float32", "--no-errors", "--max", "30", "--no-backward"]
    status, lines = ran(capsys, "RIGHT", *options)
    assert status == 0
    assert re.search(r"[1-9]\d* calls? that torch refuses \(--no-errors\)", lines[-1])
    assert re.search(r"[1-9]\d* calls? beyond 30 of an overload and dtype \(--max\)", lines[-1])
    assert re.search(r"gradients of [1-9]\d* entr(y|ies) and dtypes? \(--no-backward\)", lines[-1])
    status, lines = ran(capsys, "RIGHT", "--dtypes", "float32", "--no-samples", "--draws", "5")
    assert status == 0 and "(--no-samples)" in lines[-1]
    status, lines = ran(capsys, "RIGHT", "--dtypes", "float32,errors", "--draws", "0")
    assert status == 0 and "drawn calls of 1 overload (--draws 0)" in lines[-1]


def test_of_other_dtypes():
    x = torch.ones(2)
    call = lambda *args, source="drawn/add": freeze("aten::add.Tensor", args, {}, source, "20")
    assert not of_other_dtypes(call(x, x), ["float32"]) and of_other_dtypes(call(x, x.double()), ["float32"])
    assert not of_other_dtypes(call(x, x.long()), ["float32"])  # an index has another dtype than its array
    assert of_other_dtypes(call(x.long(), x.long()), ["float32"])
    # The dtype of a sample is that of its entry.
    assert not of_other_dtypes(call(x.double(), x, source="add"), ["float32"])


def test_nothing_judged_says_what_is_not_claimed(capsys):
    status = command.main(["--backend", f"{__name__}:RIGHT", "--tier", "quick", "--jobs", "0", "--ops", "add_.Tensor"])
    last = capsys.readouterr().out.splitlines()[-1]
    assert status == 3
    assert (
        last
        == "invalid run: nothing was judged: the backend does not claim aten::add_.Tensor; it claims aten::add.Tensor"
    )
    assert "none of a near name" in near(["aten::fft_fft"], opinfo_tests.table({"aten::sin": np.sin}))


def test_overloads_are_keys():
    assert [*load_backend(f"{__name__}:RIGHT").ops] == ["aten::add.Tensor"]
    with pytest.raises(ValueError, match="several overloads: name one of them"):
        opinfo_tests.table(SEVERAL)
    with pytest.raises(ValueError, match="an overload is named as"):
        opinfo_tests.table({3: np.sin})

    class Mine(opinfo_tests.Backend):
        ops = frozenset({torch.ops.aten.sin.default})

    assert as_backend(Mine, "mine").ops == {"aten::sin"}


def test_several_overloads_are_a_wrong_command(capsys):
    assert command.main(["--backend", f"{__name__}:SEVERAL", *QUICK]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
