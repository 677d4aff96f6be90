"""The mutation tool: mutants are valid Python, a wrong one is caught in its own process, and an equivalent one is
recognized."""

import io
import itertools
import json
import random
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.case import schemas
from opinfo_tests.generate.strategies import draws
from opinfo_tests.mutate import command, coverage, judge_handwritten_faults, rules, survivors
from opinfo_tests.mutate.rules import Mutant, kernel_modules, mutants, source_of
from opinfo_tests.mutate.trial import Found, Plan, Process, trial
from opinfo_tests.report.progress import Bars

MODULE = "torchnp.kernels.bitwise"


def test_mutants_are_python_and_differ():
    found = [m for module in random.Random(0).sample(kernel_modules(), 8) for m in mutants(module)]
    assert len({m.rule for m in found}) > len(rules.RULES) - 3
    for m in random.Random(1).sample(found, 200):
        compile(m.source(), m.module, "exec")
        assert m.source() != source_of(m.module)


def mutant(before: str, after: str, module: str = MODULE) -> Mutant:
    start = source_of(module).encode().index(before.encode())
    return Mutant(module, "", 1, "test", before, after, start, start + len(before.encode()))


@pytest.fixture(scope="module")
def held():
    oracle = TorchDevice("cpu")
    return [(case, oracle.execute(case)) for case in draws("aten::bitwise_and.Tensor", 30)]


def end(process):
    while (found := process.ended(600)) is None:  # on a busy machine, the tests that judge some mutants take minutes
        pass
    return found


def test_a_wrong_one_is_caught(held):
    found = end(Process(mutant("np.bitwise_and", "np.bitwise_or"), trial, held, [], Plan(0, 0)))
    assert found.outcome == "caught" and found.by.startswith("wrong-value aten::bitwise_and.Tensor(")


def test_one_that_nothing_tells_apart(held):
    found = end(Process(mutant("np.bitwise_and", "(np.bitwise_and)"), trial, held, [], Plan(0, 0)))
    assert found.outcome == "same" and found.calls == len(held)


def test_one_that_no_call_reaches_survives_where_a_probe_does(held):
    """The mutant is judged by no call, so it survives; but a probe's drawn calls tell it from the original."""
    found = end(
        Process(mutant("np.bitwise_and", "np.bitwise_or"), trial, [], ["aten::bitwise_and.Tensor"], Plan(0, 30))
    )
    assert found.outcome == "survived" and "bitwise_and" in found.by


@pytest.mark.weekly
def test_one_that_only_a_test_runs():
    """No call is recorded or drawn for operators without a CPU kernel in torch."""
    wrong = mutant("1 / p if p else 0.0", "2 / p if p else 0.0", "torchnp.kernels.vendor_aliases")
    found = end(Process(wrong, trial, [], [], Plan(0, 0)))
    assert found.outcome == "caught" and found.by.startswith("the test torchnp/tests/kernels/test_vendor_aliases.py::")


@pytest.mark.weekly
def test_one_that_nothing_runs():
    assert end(Process(mutant("np.bitwise_and", "np.bitwise_or"), trial, [], [], Plan(0, 0))).outcome == "unrun"


def test_judging_goes_on_after_the_first_that_tells(held):
    wrong = mutant("np.bitwise_and", "np.bitwise_or")
    first, through = (end(Process(wrong, trial, held, [], Plan(0, 0, through=t))) for t in (False, True))
    assert len(first.told) == 1 and through.calls == len(held) > len(through.told) > 1


def test_one_that_does_not_load_is_caught(held):
    found = end(Process(mutant("np.bitwise_and", "np.no_such_function"), trial, held, [], Plan(0, 0)))
    assert found.outcome == "caught"


def test_which_functions_a_call_runs(held):
    from opinfo_tests.backends.load import own_table

    places = coverage.run_by(draws("aten::native_layer_norm", 40)[-1], own_table())
    assert any(module == "torchnp.kernels.normalization" and function for module, function in places)


def test_the_score_counts_what_can_be_told_apart():
    assert command.score(Counter(caught=3, survived=1, same=9, within=2)) == 0.75
    assert command.score(Counter(caught=3, unrun=1)) == 0.75
    assert command.score(Counter(same=2)) == 1.0


def test_the_choice_is_by_seed_and_by_rule():
    a = command.parser().parse_args(["--families", "bitwise,compare", "-n", "10", "--seed", "3"])
    one, again = command.choice(a), command.choice(a)
    assert [m.id for m in one] == [m.id for m in again] and len(one) == 10
    a.seed = 4
    assert [m.id for m in command.choice(a)] != [m.id for m in one]
    assert len({m.rule for m in one}) > 5


def test_a_wrong_command(capsys):
    assert command.main(["--families", "nonesuch"]) == 2
    with pytest.raises(SystemExit):
        command.main(["--rules", "nonesuch"])
    assert "no rule nonesuch: there are constant, " in capsys.readouterr().err


@pytest.mark.weekly
def test_a_broken_run_shows_what_it_has_and_goes_on(tmp_path, monkeypatch, capsys):
    """After Ctrl-C the score of the mutants judged so far is printed; the same command with --resume judges the
    rest."""
    arguments = [
        "-n",
        "6",
        "--ops",
        "aten::bitwise_and.Tensor",
        "--draws",
        "20",
        "--probes",
        "0",
        "--jobs",
        "1",
        "--again",
        "0",
    ]
    arguments += ["--report", str(tmp_path / "report.jsonl")]
    ends = command.ends

    def broken(*arguments):
        yield from itertools.islice(ends(*arguments), 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "ends", broken)
    assert command.main(arguments) == 130
    assert "Of 2 mutants" in (said := capsys.readouterr().out) and "interrupted: 2 of 6 were judged" in said
    first = (tmp_path / "report.jsonl").read_text()
    monkeypatch.setattr(command, "ends", ends)
    command.main([*arguments, "--resume"])
    assert "Of 6 mutants" in capsys.readouterr().out
    whole = (tmp_path / "report.jsonl").read_text()
    assert whole.startswith(first) and len({json.loads(line)["id"] for line in whole.splitlines()}) == 6


def test_what_survives_is_judged_again_by_the_full_tier():
    """A survivor that few calls can catch is judged again with more calls; a caught mutant is not judged again."""
    wrong, right = mutant("np.bitwise_and", "np.bitwise_or"), mutant("np.bitwise_xor", "np.bitwise_or")
    rows = [(wrong, Found("survived", "a probe")), (right, Found("caught"))]
    with Bars(Console(file=io.StringIO())) as bar:
        ops = SimpleNamespace(ops=lambda place, most: ["aten::bitwise_and.Tensor"])
        found = dict(command.again(command.parser().parse_args(["--again", "300"]), rows, ops, bar))
    assert [*found] == [wrong] and found[wrong].outcome == "caught"
    assert found[wrong].by.startswith("the full tier: wrong-value aten::bitwise_and.Tensor(")


@pytest.mark.parametrize("arguments", [["--resume"], ["--resume", "--report", "r.jsonl", "--through"]])
def test_what_cannot_go_on(arguments, capsys):
    with pytest.raises(SystemExit) as e:
        command.main(arguments)
    assert e.value.code == 2 and "--resume" in capsys.readouterr().err


@pytest.mark.weekly
def test_faults_written_by_hand(tmp_path, capsys):
    """One fault is caught, one survives because it changes nothing, and the text of one is gone.

    The exit status depends on the score.
    """
    place = {"file": "torchnp/kernels/bitwise.py", "ops": ["aten::bitwise_and.Tensor"], "why": "a test"}
    one, two, three = (
        {"id": f"T{i}", "old": old, "new": new, **place}
        for i, (old, new) in enumerate([("np.bitwise_and", "np.bitwise_or"), ("np.bitwise_and", "(np.bitwise_and)"), ("no such text", "")])
    )  # fmt: skip
    file = tmp_path / "faults.json"
    file.write_text(json.dumps([one, two, three]))
    report = tmp_path / "report.jsonl"
    assert command.main(["--from", str(file), "--jobs", "1", "--report", str(report)]) == 1
    told = {row["rule"]: row for row in map(json.loads, report.read_text().splitlines())}
    assert told["T0"]["outcome"] == "caught" and "wrong-value aten::bitwise_and.Tensor(" in told["T0"]["by"]
    assert told["T1"]["outcome"] == "survived" and told["T1"]["calls"] > 300
    shown = capsys.readouterr().out
    assert "1 change what the kernels no longer have: T2" in shown and "1 of 2 caught" in shown


def test_what_is_no_file_of_faults(tmp_path, capsys):
    (tmp_path / "x.json").write_text('[{"id": "T"}]')
    assert command.main(["--from", str(tmp_path / "x.json")]) == 2
    assert "is no list of faults: KeyError: 'file'" in capsys.readouterr().err


def test_the_faults_that_ship_can_be_read():
    found = [
        fault
        for path in sorted(judge_handwritten_faults.SHIPPED.glob("*.json"))
        for fault in judge_handwritten_faults.read(path)
    ]
    assert len({f.name for f in found}) == len(found) > 100
    assert {op for f in found for op in f.ops} <= schemas().keys()


@pytest.mark.parametrize("one", survivors.survivors(), ids=lambda s: f"{s.function}-{s.before[:20]}")
def test_a_survivor_that_is_listed_is_a_mutant_still(one):
    """The list contains no mutant whose code is gone, and gives a reason for each."""
    same = [m for m in mutants(one.module) if (m.function, m.before, m.after) == (one.function, one.before, one.after)]
    assert same and survivors.why(same[0]) == one.why
    assert not survivors.why(replace(same[0], after="nothing"))
