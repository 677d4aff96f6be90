"""The command line refuses wrong options at once, before it judges anything and without a traceback."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from rich.console import Console

from opinfo_tests.report import progress
from opinfo_tests.run import command

HEAD = {"header": 1, "backend": "mine"}
ROW = {"op": "aten::sin", "dtype": "float32", "id": "aten::sin/float32/aa", "outcome": "pass", "sample": "sin",
       "sample_dtype": "float32", "ms": 0.1}  # fmt: skip
ENTRY = '[[gap]]\nop = "aten::sin"\ndtype = "*"\noutcome = "wrong-value"\nreason = "a test"\n'


def refused(capsys: pytest.CaptureFixture, *arguments: str) -> str:
    """Run a wrong command and return what it says."""
    try:
        status = command.main([str(a) for a in arguments])
    except SystemExit as e:  # raised by argparse
        status = e.code
    assert status == 2
    found = capsys.readouterr()
    assert "control:" not in found.out and "Traceback" not in found.err
    return found.err


@pytest.mark.parametrize(
    "arguments",
    ["--jobs -1", "--timeout 0", "--timeout nan", "--timeout -3", "--max -1", "--messages -1", "--draws -2", "--order 3",
     "--seed -1", "--shrink -1", "--badge b.png", "--resume", "--from-report r.jsonl"],
)  # fmt: skip
def test_wrong_arguments(arguments, capsys):
    assert arguments.split()[0] in refused(capsys, *arguments.split())


@pytest.mark.parametrize("option", ["html", "summary", "badge", "report", "repro"])
def test_places_are_checked_first(option, tmp_path, capsys):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "x.svg", *([tmp_path / "none" / "x.svg"] if option != "repro" else [])):
        assert f"--{option} {place}" in refused(capsys, "--ops", "sin", f"--{option}", place)


def test_gaps_are_read_first(tmp_path, capsys):
    path = tmp_path / "gaps.toml"
    assert "no gaps file" in refused(capsys, "--ops", "sin", "--gaps", path)
    path.write_text(ENTRY + "x")
    assert str(path) in refused(capsys, "--ops", "sin", "--gaps", path)


def test_diff(tmp_path, capsys):
    assert "No such file" in refused(capsys, "--diff", tmp_path / "a", tmp_path / "b")
    (tmp_path / "a").write_text(json.dumps(ROW))
    (tmp_path / "b").write_text(json.dumps(ROW | {"id": "other"}))
    assert command.main(["--diff", str(tmp_path / "a"), str(tmp_path / "a")]) == 0
    assert command.main(["--diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 2


def test_products_of_a_report(tmp_path, capsys):
    report, summary = tmp_path / "r.jsonl", tmp_path / "s.md"
    arguments = ["--from-report", str(report), "--summary", str(summary)]
    assert "No such file" in refused(capsys, *arguments)
    report.write_text("not JSON")
    assert "not a row of a report" in refused(capsys, *arguments)
    report.write_text(json.dumps(HEAD))
    assert command.main(arguments) == 3
    assert "give --html, --badge, --summary or --repro" in refused(capsys, "--from-report", report)
    rows = [HEAD, ROW, {"footer": 1, "absent": [["aten::fft", 3]]}]
    report.write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert command.main([*arguments, "--backend", "opinfo_tests.tests.test_plugins:TEN"]) == 0
    assert "1 of 1 calls pass" in summary.read_text() and "| aten::fft | 3 |" in summary.read_text()


@pytest.mark.parametrize("after", [0.3, 0.7, 1.1, 1.5, 1.9, 6.0])
def test_interrupted_quietly(after, tmp_path):
    """Ctrl-C while torch is imported, and during the control run, which the workers do not know about."""
    arguments = [sys.executable, "-m", "opinfo_tests", "--ops", "add*", "--report", str(tmp_path / "r.jsonl")]
    run = subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background process ignores SIGINT
    )
    time.sleep(after)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: the workers get the signal, too
    out, err = run.communicate(timeout=60)
    assert run.returncode in (130, -signal.SIGINT), out + err  # a shell shows both as 130
    # Printed by CUDA builds of torch at import.
    said = [line for line in err.splitlines() if "No CUDA runtime" not in line]
    assert len(said) == 1 and said[0].startswith("interrupted")


WRONG = {"aten::floor": np.ceil}


def test_stops_at_the_first_failure_that_no_gap_knows(tmp_path, capsys):
    """A run does not stop at a known failure: it would end with status 0 although the rest was not judged."""
    gaps = tmp_path / "gaps.toml"
    entry = '[[gap]]\nop = "{}"\ndtype = "*"\noutcome = "wrong-value"\nreason = "wrong on purpose"\n\n'
    options = [
        "--backend",
        f"{__name__}:WRONG",
        "--ops",
        "floor",
        "--dtypes",
        "float64",
        "--jobs",
        "0",
        "-x",
        "--tier",
        "quick",
    ]
    judged = []
    for known, code in ((), 1), (("aten::floor",), 0):
        gaps.write_text("".join(map(entry.format, known)))
        assert command.main([*options, "--gaps", str(gaps)]) == code
        judged.append(int(re.search(r"of ([\d,]+) calls? pass", capsys.readouterr().out)[1].replace(",", "")))
    assert judged[0] < judged[1]


def test_long_work_says_how_far_it_is_where_no_bar_is_seen(monkeypatch):
    out = io.StringIO()
    seconds = iter([0.0, 1.0, 40.0, 50.0, 71.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(seconds))
    with progress.Bars(Console(file=out, width=80)) as shown:
        job = shown.add_task("judging", total=2_000)
        for n in (1, 2, 3, 1_500):
            shown.move(job, completed=n)
    lines = [line for line in out.getvalue().splitlines() if "judging," in line]
    assert lines == ["40 s: judging, 2 of 2,000", "71 s: judging, 1,500 of 2,000"]
