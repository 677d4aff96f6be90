"""The example calls of the catalogue's differences: our table passes all of them, and a row that behaves like NumPy
fails."""

from __future__ import annotations

import numpy as np

import opinfo_tests
from opinfo_tests.backends.load import load_backend
from opinfo_tests.report import gaps
from opinfo_tests.run.difference_cases import ask
from torchnp.difference_catalogue import CATALOGUE


def test_the_table_keeps_every_difference():
    found = list(ask(load_backend("table"), gaps.load(gaps.file_for("table"))))
    assert len(found) == len(CATALOGUE)
    assert not [a.difference.id for a in found if a.wrong]
    assert sum(bool(a.calls) for a in found) > 0.9 * len(CATALOGUE)


def test_numpys_own_function_is_found():
    rows = {"aten::var.correction": lambda self, dim=None, *, correction=None, keepdim=False: np.asarray(np.var(self))}
    wrong = {a.difference.id: a.wrong for a in ask(opinfo_tests.table(rows)) if a.wrong}
    assert "correction" in wrong, wrong
    assert {case.op for found in wrong.values() for case, _, _ in found} == {"aten::var.correction"}
