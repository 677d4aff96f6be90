"""What is read in place of the table: the files say what the table says, and every example is run."""

import subprocess
import sys
from pathlib import Path

import pytest

import torchnp
from torchnp.catalogue import CATALOGUE
from torchnp.differences import Difference, run
from torchnp.lookup import facts
from torchnp.lookup.naming import public_name

ROOT = Path(__file__).resolve().parents[2]


def test_facts_are_the_tables():
    table = torchnp.table
    assert set(facts.rows()) == set(table)
    for name, row in table.items():
        body = facts.body_of(name)
        declared = (body.family, body.like, body.differs)
        assert declared == (row.family, public_name(row.like), row.row.differs), "run scripts/make_lookup.py"
        assert facts.rows()[name].source == (row.derived_from or "")
    assert {n: facts.status(n) for n in table.schemas} == {n: table.status(n) for n in table.schemas}


def test_files_are_up_to_date():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make_lookup.py", "--check"], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "up to date\n", done.stdout + done.stderr


@pytest.mark.parametrize("pair", facts.examples(), ids="-".join)
def test_example_of_an_operator(pair):
    (op, i), example = pair, facts.examples()[pair]
    assert any(i in body.differs for body in facts.bodies(op)), "run scripts/make_lookup.py"
    shown = Difference(
        i, "", example.torch, example.torch_value, example.numpy, example.numpy_value, example.kernel,
        where=CATALOGUE[i].where, in_numpy=example.in_numpy, in_torch=example.in_torch,
    )  # fmt: skip
    fields = [f for f in ("torch", "numpy", "kernel", "in_numpy", "in_torch") if getattr(shown, f)]
    values = run(shown, fields)
    assert values["torch"] == example.torch_value
    if shown.holds():
        assert values["numpy"] == example.numpy_value != example.torch_value
    words = 6 if "Error:" in example.torch_value else None
    assert values["kernel"].split()[:words] == example.torch_value.split()[:words]
    # np.count_nonzero gives Python's integers in older versions of NumPy.
    advised = values.get("in_numpy", example.torch_value)
    assert advised.removeprefix("int64[] ") == example.torch_value.removeprefix("int64[] ")
    assert not shown.holds() or values.get("in_torch", example.numpy_value) == example.numpy_value
