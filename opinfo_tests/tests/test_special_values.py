"""Special values in place of a call's own values, and the list of operators that few calls test."""

from __future__ import annotations

from fnmatch import fnmatchcase

import numpy as np
import pytest
import torch

from opinfo_tests.case import DTYPES, schemas
from opinfo_tests.generate.mutations.special_values import KINDS, planted, specials
from opinfo_tests.generate.samples.recording import freeze
from opinfo_tests.report.undertested import LEAST, Thin, held, options, reasons, thin, values_of

SHOWN = {
    "nan": np.isnan,
    "infinite": np.isinf,
    "huge": lambda x: np.abs(x) > np.finfo(np.float32).max / 4,
    "tiny": lambda x: (x != 0) & (np.abs(x) <= np.finfo(np.float32).tiny),
    "zero": lambda x: x == 0,
    "equal": lambda x: x == x.flat[0],
}


def call(op, *args, **kwargs):
    return freeze(op, args, kwargs, "", "float32")


def first(case):
    return case.args[0].on(case.buffers)


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_a_kind_stand_among_the_calls_own(kind):
    case = call("aten::exp", torch.arange(1.0, 13.0).reshape(3, 4).t())
    made = planted(case, kind)
    assert SHOWN[kind](first(made)).sum() > SHOWN[kind](first(case)).sum()
    assert (first(made) == first(case)).any()
    assert first(made).strides == first(case).strides
    assert made.digest != case.digest


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [n for n, d in DTYPES.items() if d.kind in "fcV" and not n.startswith("float8")])
def test_kinds_are_there_in_each_dtype(dtype, kind):
    values = np.array(specials(DTYPES[dtype], kind)).astype(np.complex128)
    shown = {
        "nan": np.isnan, "infinite": np.isinf, "huge": lambda x: np.abs(x) > 1e4, "zero": lambda x: x == 0,
        "tiny": lambda x: (np.abs(x) < 1e-4) | (x.imag == 1), "equal": lambda x: x == x,
    }[kind]  # fmt: skip
    assert shown(values).any()


def test_sums_get_nothing_that_an_order_decides():
    for kind in ("infinite", "huge"):
        values = first(planted(call("aten::sum", torch.arange(1.0, 9.0)), kind))
        assert np.isnan(values).any()
        assert not np.isinf(values).any()
        values = first(planted(call("aten::sum.dim_IntList", torch.arange(1.0, 9.0), [0]), kind))
        assert np.isinf(values).sum() == 1
        assert not np.isnan(values).any()


def test_nothing_is_planted_where_an_operator_takes_no_such_values():
    assert planted(call("aten::sum", torch.arange(4)), "nan") is None  # integers have no nan
    assert planted(call("aten::linalg_inv", torch.eye(3)), "nan") is None
    assert planted(call("aten::exp.out", torch.ones(0), out=torch.ones(0)), "nan") is None


def test_an_out_is_left_as_it_is():
    case = call("aten::exp.out", torch.ones(4), out=torch.zeros(4))
    made = planted(case, "nan")
    assert np.isnan(first(made)).any()
    assert not np.isnan(made.kwargs["out"].on(made.buffers)).any()


def test_options_that_were_always_the_same_are_listed():
    assert options("aten::sum.dim_IntList") == ("dim", "keepdim", "dtype")
    case = call("aten::sum.dim_IntList", torch.ones(2, 3), [0], True)
    assert dict(values_of(case)) == {"dim": "given", "keepdim": "True", "dtype": "None"}
    met = {"aten::sum.dim_IntList": {"dim": {"given", "None"}, "keepdim": {"True"}, "dtype": {"None", "given"}}}
    found = thin({"aten::sum.dim_IntList": LEAST}, met, ["aten::sum.dim_IntList"])
    assert [str(f) for f in found] == ["aten::sum.dim_IntList: always keepdim=True"]
    assert [str(f) for f in thin({}, met, ["aten::neg"])] == ["aten::neg: 0 calls"]


def test_what_is_hardly_tried_has_a_reason(tmp_path):
    path = tmp_path / "thin.tsv"
    path.write_text("# what\naten::su*\tkeepdim calls\ta test\n")
    found = [Thin("aten::sum", "keepdim", "True"), Thin("aten::sum", "calls", "3"), Thin("aten::neg", "calls", "0")]
    names = ["aten::sum", "aten::neg"]
    assert held(found[:2], names, names, path) == []
    unknown = held(found, names, names, path)
    assert unknown[0] == "aten::neg: 0 calls" and "no line of" in unknown[1]
    assert held(found[:1], names, names, path) == [f"{path}:2: aten::su* is tried now: delete calls"]
    # The line stays if not all operators that it matches were judged.
    assert held([], ["aten::sum"], [*names, "aten::sub"], path) == []
    assert "is no overload" in held([], [], ["aten::neg"], path)[0]
    path.write_text("aten::su*\tcalls\n")
    with pytest.raises(SystemExit, match="a reason"):
        held([], names, names, path)


def test_reasons_name_options():
    for r in reasons():
        ops = [op for op in schemas() if fnmatchcase(op, r.pattern)]
        assert ops and r.what <= {"calls"}.union(*(options(op) for op in ops)), r
