"""The data files that `torchnp explain` reads instead of the table agree with the table, and every example is run."""

import fnmatch
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import torchnp
from torchnp.difference_catalogue import CATALOGUE
from torchnp.differences import Difference, run
from torchnp.lookup import no_counterpart, op_index
from torchnp.lookup.public_name import public_name
from torchnp.lookup.resolve import meaning_of

ROOT = Path(__file__).resolve().parents[3]


def test_facts_are_the_tables():
    table = torchnp.table
    assert set(op_index.rows()) == set(table)
    for name, row in table.items():
        body = op_index.body_of(name)
        declared = (body.family, body.like, body.differs)
        assert declared == (row.family, public_name(row.like), row.row.differs), "run scripts/make_lookup.py"
        assert op_index.rows()[name].source == (row.derived_from or "")
    assert {n: op_index.status(n) for n in table.schemas} == {n: table.status(n) for n in table.schemas}


def test_files_are_up_to_date():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make_lookup.py", "--check"], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "up to date\n", done.stdout + done.stderr


@pytest.mark.parametrize("pair", op_index.examples(), ids="-".join)
def test_example_of_an_operator(pair):
    (op, i), example = pair, op_index.examples()[pair]
    assert any(i in body.differs for body in op_index.bodies(op)), "run scripts/make_lookup.py"
    shown = Difference(
        i, "", example.torch, example.torch_value, example.numpy, example.numpy_value, example.kernel,
        where=CATALOGUE[i].where, in_numpy=example.in_numpy, in_torch=example.in_torch,
    )  # fmt: skip
    fields = [f for f in ("torch", "numpy", "kernel", "in_numpy", "in_torch") if getattr(shown, f)]
    values = run(shown, fields)
    assert alike(values["torch"], example.torch_value)
    assert example.torch_value != example.numpy_value
    if "Error:" in example.torch_value:
        assert values["kernel"].split()[:6] == example.torch_value.split()[:6]
    else:
        assert alike(values["kernel"], example.torch_value)
    # np.count_nonzero gives Python's integers in older versions of NumPy.
    advised = values.get("in_numpy", example.torch_value)
    assert alike(advised.removeprefix("int64[] "), example.torch_value.removeprefix("int64[] "))
    if shown.holds():
        assert alike(values["numpy"], example.numpy_value)
        assert alike(values.get("in_torch", example.numpy_value), example.numpy_value)


NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]\d+)?")


def alike(a, b):
    """Return whether texts are equal apart from the last digits of floats, which depend on the processor."""
    near = np.allclose([float(x) for x in NUMBER.findall(a)], [float(x) for x in NUMBER.findall(b)], rtol=2e-6)
    return NUMBER.sub("", a) == NUMBER.sub("", b) and near


def test_an_operator_has_a_counterpart_or_it_is_said_why_not():
    """A kernel without ``like=`` has a call in `equivalents`, or a reason in `no_counterpart`."""
    for op in op_index.overloads():
        bodies = op_index.bodies(op)
        if op_index.is_own(op) and bodies and not any(body.like for body in bodies):
            means = meaning_of(op_index.callers().get(op, op)) or meaning_of(op)
            assert means.calls or no_counterpart.reason(op), (
                f"{op}: add like=, or a row of data/equivalents.toml, or it to lookup/no_counterpart.py"
            )
    assert no_counterpart.reason("aten::add") == "" and no_counterpart.reason("aten::lstm").startswith("is a layer")


def test_reasons_cover_something():
    places = [
        f"{op_index.bodies(op)[0].family}/{op.partition('::')[2]}"
        for op in op_index.overloads()
        if no_counterpart.reason(op)
    ]
    for _, globs in no_counterpart.GROUPS:
        assert [g for g in globs.split() if not fnmatch.filter(places, g)] == []
