"""The quick tier's cache: calls are drawn once, read back unchanged, and drawn again if the cache is damaged."""

import pytest

from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.generate.samples.opinfo_reach import HOMES, homes, plan
from opinfo_tests.generate.task import DRAWN, PLAIN, Task
from opinfo_tests.run import command, oracle_cache
from opinfo_tests.run.oracle_cache import OracleCache

ORACLE = TorchDevice("cpu")


def ids(held):
    return sorted(case.id for case, _ in held)


def test_read_as_drawn(tmp_path, monkeypatch):
    task, mine = Task("sin", "float32"), OracleCache(tmp_path, 3)
    first = mine.held(task, lambda op: True, ORACLE)
    counts = {}
    for case, want in first:
        counts[case.op, case.dtype] = counts.get((case.op, case.dtype), 0) + 1
        again = ORACLE.execute(case)
        assert (want.error is None) == (again.error is None) and want.structure == again.structure
    assert max(counts.values()) == 3
    assert all(task.source in homes()[op] for op, _ in counts)
    monkeypatch.setattr(OracleCache, "drawn", lambda *_: pytest.fail("it was drawn again"))
    assert ids(mine.held(task, lambda op: True, ORACLE)) == ids(first)
    some = mine.held(task, lambda op: op == "aten::sin", ORACLE)
    assert {case.op for case, _ in some} == {"aten::sin"}


def test_a_damaged_file_is_drawn_again(tmp_path):
    task, mine = Task(DRAWN + "aten::sin", f"5{PLAIN}"), OracleCache(tmp_path, 3)
    first = ids(mine.held(task, lambda op: True, ORACLE))
    path = mine.path(task)
    for cut in (0, 5, path.stat().st_size - 3):
        path.write_bytes(path.read_bytes()[:cut])
        assert ids(mine.held(task, lambda op: True, ORACLE)) == first and len(first) == 5


@pytest.mark.parametrize("source", ["own", pytest.param("models", marks=pytest.mark.weekly)])
def test_a_part_of_a_list_is_as_of_the_whole(source, tmp_path):
    """For a few overloads, the rows of others are not run, and the cached calls are the same."""
    task, whole, part = Task(source, "bfloat16"), OracleCache(tmp_path / "whole", 5), OracleCache(tmp_path / "part", 5)
    few = sorted({case.op for case, _ in whole.held(task, lambda op: True, ORACLE)})[::12]
    mine = ids(part.held(task, few.__contains__, ORACLE))
    assert len(mine) >= len(few) > 3 and mine == ids(whole.held(task, few.__contains__, ORACLE))
    assert not part.path(task).exists() and len(list(part.path(task).parent.iterdir())) == 1


def test_other_seeds_choose_other_calls(tmp_path):
    task = Task("sin", "float32")
    one, other = (ids(OracleCache(tmp_path / str(c), 3, choice=c).held(task, lambda op: True, ORACLE)) for c in (0, 1))
    assert one != other


def test_only_the_newest_folders_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHNP_CACHE", str(tmp_path))
    folders = [oracle_cache.opened(seed=seed).folder for seed in range(oracle_cache.KEPT + 2)]
    assert [f.exists() for f in folders][-oracle_cache.KEPT :] == [True] * oracle_cache.KEPT and not folders[0].exists()


def test_quick_runs_are_alike(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TORCHNP_CACHE", str(tmp_path))
    lines = []
    for _ in range(2):
        assert command.main(["--tier", "quick", "--ops", "sin,sin_", "--jobs", "0"]) == 0
        lines.append([line for line in capsys.readouterr().out.splitlines() if "pass," in line])
    assert lines[0] == lines[1] and len(lines[0]) == 1
    assert len(plan(frozenset(["aten::add.Tensor"]), ["float32"], home=True)) <= HOMES + 1  # one more for the models
