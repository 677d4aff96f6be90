"""Known gaps are checked in both directions (new failures, and gaps that no longer fail), and reports add up."""

from __future__ import annotations

import json

import pytest

from opinfo_tests.case import DTYPES
from opinfo_tests.report import gaps
from opinfo_tests.report.report import Tally, diff

NAMES = ["aten::add.Tensor", "aten::mul.Tensor", "aten::mul.out"]
ALL = gaps.Scope(NAMES, NAMES, [*DTYPES, "errors"])


def row(op="aten::add.Tensor", dtype="float32", case="aa", outcome="pass", message="", call=""):
    return {
        "op": op,
        "dtype": dtype,
        "id": f"{op}/{dtype}/{case}",
        "outcome": outcome,
        "message": message,
        "call": call,
        "sample": "add",
    }


def tally(*rows):
    found = Tally()
    for r in rows:
        found.add(r)
    return found


def entries(tmp_path, text):
    path = tmp_path / "gaps.toml"
    path.write_text(text)
    return path, gaps.load(path)


ENTRY = """
[[gap]]
op = "aten::add.Tensor"
dtype = "float32"
outcome = "wrong-value"
reason = "rounds twice"
cases = ["aa"]
"""


def test_known_failure_passes_and_unknown_fails(tmp_path):
    path, known = entries(tmp_path, ENTRY)
    assert gaps.check(known, tally(row(outcome="wrong-value")), NAMES, path, ALL).ok
    found = gaps.check(
        known, tally(row(outcome="wrong-value"), row(case="bb", outcome="wrong-value")), NAMES, path, ALL
    )
    assert [r["id"] for r in found.unknown] == ["aten::add.Tensor/float32/bb"]


def test_other_outcome_is_not_covered(tmp_path):
    path, known = entries(tmp_path, ENTRY)
    assert gaps.check(known, tally(row(outcome="wrong-dtype")), NAMES, path).unknown


def test_what_only_drawn_calls_meet_is_known_for_them_alone(tmp_path):
    path, known = entries(tmp_path, ENTRY.replace('cases = ["aa"]', "drawn = true"))
    failing = row(outcome="wrong-value")
    assert gaps.check(known, tally(), NAMES, path, ALL).ok
    assert gaps.check(known, tally(failing), NAMES, path, ALL).unknown
    assert gaps.check(known, tally(failing | {"sample": "drawn/aten::add.Tensor"}), NAMES, path, ALL).ok
    assert "drawn = true" in gaps.dump(known)


def test_what_a_processor_does_is_known_there_alone(tmp_path, monkeypatch):
    path, known = entries(tmp_path, ENTRY.replace('cases = ["aa"]', 'processor = "AVX2"'))
    for here, fine in (("AVX2", True), ("AVX512", False)):
        monkeypatch.setattr(gaps, "capability", lambda here=here: here)
        assert gaps.check(known, tally(row(outcome="wrong-value")), NAMES, path, ALL).ok == fine
        assert gaps.check(known, tally(row()), NAMES, path, ALL).ok  # such a gap need not occur on every machine
    assert 'processor = "AVX2"' in gaps.dump(known)


def test_entry_that_passes_names_the_line(tmp_path):
    path, known = entries(tmp_path, ENTRY)
    found = gaps.check(known, tally(row()), NAMES, path)
    assert found.stale == [f"{path}:2: passes now: delete aa"]


def test_entry_for_no_operator_fails(tmp_path):
    path, known = entries(tmp_path, ENTRY.replace("add.Tensor", "ad.Tensor"))
    assert "is not an operator" in gaps.check(known, tally(row()), NAMES, path).stale[0]


def test_family_by_message(tmp_path):
    text = ENTRY.replace("add.Tensor", "*.out").replace('cases = ["aa"]', 'message = "off by"')
    path, known = entries(tmp_path, text)
    bad = row("aten::mul.out", outcome="wrong-value", message="off by one")
    assert gaps.check(known, tally(bad), NAMES, path, ALL).ok
    assert gaps.check(known, tally(row("aten::mul.out")), NAMES, path, ALL).stale
    assert not gaps.check(known, tally(row("aten::mul.out")), NAMES, path).stale


def test_family_by_call(tmp_path):
    text = ENTRY.replace("add.Tensor", "*.out").replace('cases = ["aa"]', r"call = 'out=\w+\[3\] strides'")
    path, known = entries(tmp_path, text)
    spread = row(
        "aten::mul.out", outcome="wrong-value", call="aten::mul.out(float32[3], 2, out=float32[3] strides(2,))"
    )
    dense = row("aten::mul.out", outcome="wrong-value", call="aten::mul.out(float32[3], 2, out=float32[3])")
    assert gaps.check(known, tally(spread), NAMES, path, ALL).ok
    assert gaps.check(known, tally(dense), NAMES, path).unknown
    assert gaps.load(path) == known


PATTERN = ENTRY.replace("add.Tensor", "mul.*").replace('cases = ["aa"]', "")


@pytest.mark.parametrize(
    ("ops", "dtypes", "entry", "stale"),
    [
        (NAMES, ["float32", "errors"], PATTERN, True),
        (NAMES[:2], ["float32", "errors"], PATTERN, False),  # mul.out was not run
        (NAMES, ["float32"], PATTERN, False),  # calls that torch refuses were not run
        (NAMES, ["int64", "errors"], PATTERN, False),
        (NAMES, ["float32", "errors"], PATTERN.replace("float32", "*"), False),
        (NAMES, [*DTYPES, "errors"], PATTERN.replace("float32", "*"), True),
        (NAMES, ["float32", "float64", "float16", "errors"], PATTERN.replace("float32", "float*"), False),
    ],
)
def test_entry_is_stale_only_where_all_that_it_may_mean_was_judged(tmp_path, ops, dtypes, entry, stale):
    path, known = entries(tmp_path, entry)
    scope = gaps.Scope(ops, NAMES, dtypes)
    assert bool(gaps.check(known, tally(row("aten::mul.Tensor")), NAMES, path, scope).stale) is stale


@pytest.mark.parametrize(
    ("old", "new"),
    [("wrong-value", "wrong"), ("rounds twice", " "), ("reason", "because"), ('"float32"', '"float32"\nextra = 1')],
)
def test_malformed_entry_is_an_error(tmp_path, old, new):
    with pytest.raises(SystemExit, match=r"gaps.toml:2"):
        entries(tmp_path, ENTRY.replace(old, new))


def test_accept_rewrites_only_what_ran(tmp_path):
    path, known = entries(tmp_path, ENTRY + ENTRY.replace("add.Tensor", "mul.Tensor"))
    ran = gaps.Scope(NAMES[:1], NAMES, [*DTYPES, "errors"])
    new = gaps.accept(path, known, tally(row(case="bb", outcome="wrong-value")), whole=ran)
    assert [(g.op, g.cases, g.reason) for g in new] == [
        ("aten::add.Tensor", ("bb",), "rounds twice"),
        ("aten::mul.Tensor", ("aa",), "rounds twice"),
    ]


def test_accepted_without_a_reason_still_fails(tmp_path):
    path, known = entries(tmp_path, "")
    ran = tally(row(outcome="wrong-value"))
    new = gaps.accept(path, known, ran, whole=ALL)
    assert "has no reason yet" in gaps.check(new, ran, NAMES, path, ALL).stale[0]


def test_diff_counts_what_got_worse(tmp_path):
    reports = []
    for i, outcomes in enumerate((("pass", "wrong-value"), ("wrong-alias", "pass"))):
        found = Tally(tmp_path / f"{i}.jsonl", {"header": 1})
        for case, outcome in zip("ab", outcomes, strict=True):
            found.add(row(case=case, outcome=outcome))
        found.close()
        reports.append(found.path)
    lines, status = diff(*reports)
    assert status == 1
    assert lines[:2] == [
        "better: wrong-value -> pass: aten::add.Tensor/float32/b: ",
        "worse: pass -> wrong-alias: aten::add.Tensor/float32/a: ",
    ]
    assert lines[-1] == "1 case got worse, 1 got better, 0 fail in another way"


@pytest.mark.parametrize(
    ("before", "after", "status", "words"),
    [
        ("ab", "ab", 0, "2 compared, 0 only in"),
        ("ab", "a", 1, "1 compared, 1 only in"),
        ("a", "ab", 0, "1 compared, 0 only in"),
        ("a", "b", 2, "0 compared, 1 only in"),
    ],
)
def test_diff_counts_what_is_not_in_both(tmp_path, before, after, status, words):
    reports = [tmp_path / "before.jsonl", tmp_path / "after.jsonl"]
    for path, cases in zip(reports, (before, after), strict=True):
        path.write_text("".join(json.dumps(row(case=c)) + "\n" for c in cases))
    lines, found = diff(*reports)
    assert found == status and any(line.startswith(words) for line in lines)


@pytest.mark.parametrize(
    ("text", "words"), [(None, "No such file"), ("{}\nx", ":2: not a row"), ("[1]", ":1: not a row")]
)
def test_diff_of_what_is_no_report(tmp_path, text, words):
    path = tmp_path / "r.jsonl"
    if text:
        path.write_text(text)
    with pytest.raises(SystemExit, match=words):
        diff(path, path)


@pytest.mark.parametrize(
    "text",
    ["[[gap]\n", "[[gaps]]\n", "gap = 3", ENTRY + "message = '('", ENTRY + "call = '('", ENTRY.replace('["aa"]', "3")],
)
def test_malformed_file_is_an_error(tmp_path, text):
    with pytest.raises(SystemExit, match="gaps.toml"):
        entries(tmp_path, text)


def test_the_table_has_its_gaps_by_either_name():
    assert gaps.file_for("numpy") == gaps.file_for("table") != gaps.file_for("mine")


def test_the_remote_tensor_has_the_tables_gaps_too(tmp_path, monkeypatch):
    """Gaps of the table are known wherever its kernels run, but only the table's own runs can show that a gap is
    closed."""
    tables, remotes = tmp_path / "gaps.toml", tmp_path / "gaps-remote.toml"
    tables.write_text(ENTRY)
    remotes.write_text(ENTRY.replace('["aa"]', '["bb"]'))
    files = {"table": tables, "remote-local": remotes}
    monkeypatch.setattr(gaps, "file_for", lambda backend: files.get(backend, tmp_path / "none.toml"))
    known = gaps.known_to("remote-local", remotes)
    assert [(g.cases, g.borrowed) for g in known] == [(("bb",), False), (("aa",), True)]
    failing = tally(row(case="aa", outcome="wrong-value"), row(case="bb", outcome="wrong-value"))
    assert gaps.check(known, failing, NAMES, remotes, ALL).ok
    passing = gaps.check(known, tally(row(case="aa"), row(case="bb")), NAMES, remotes, ALL)
    assert len(passing.stale) == 1 and "bb" in passing.stale[0]
    assert len(gaps.accept(remotes, known, failing, ALL)) == 2 and '"aa"' not in remotes.read_text()
    assert [g.borrowed for g in gaps.known_to("table", tables)] == [False]
    assert len(gaps.known_to("remote-local", tables)) == 1  # only the file that was asked for
