"""Changes between versions of torch: each example is run with the installed version; and the command."""

import json
import re
from collections import Counter
from fnmatch import fnmatchcase

import numpy as np
import pytest
import torch

from opinfo_tests.judge.verdict import OUTCOMES
from torchnp.cli import main
from torchnp.core.schema import of_any_version
from torchnp.core.target import KNOWN, parse
from torchnp.difference_catalogue import CATALOGUE
from torchnp.differences import evaluate
from torchnp.version_changes import CATEGORIES, ID, all_changes, changes, registry_changes

CHANGES = {c.id: c for c in all_changes()}
HERE = parse(torch.__version__)


def test_ids_are_unique():
    """Ids of changes also differ from ids of differences, because both are anchors on the site."""
    assert Counter([*(c.id for c in all_changes()), *CATALOGUE]).most_common(1)[0][1] == 1


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_fields(change):
    assert ID.fullmatch(change.id) and change.category in CATEGORIES and change.title[-1] == "."
    assert parse(change.since) in KNOWN[1:] and change.before != change.after
    names = [n.removeprefix("aten::") for n in of_any_version()]
    for op in change.ops:
        assert any(fnmatchcase(n, op) for n in names), op
    for seen in change.seen:
        assert seen.outcome in OUTCOMES
        re.compile(seen.message), re.compile(seen.call)


@pytest.mark.skipif(HERE not in KNOWN, reason="a version that the catalogue does not know")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_installed_torch_gives_the_value(change):
    wanted = change.after if parse(change.since) <= HERE else change.before
    assert evaluate(change.code, torch=torch, np=np) == wanted


def test_a_range_of_versions():
    assert changes("2.13", "2.14") == changes("2.14", "2.13") != []
    assert changes("2.13", "2.13") == [] == registry_changes("2.14", "2.14")
    with pytest.raises(ValueError, match="not 2.1"):
        changes("2.1", "2.14")


def test_the_registry():
    kinds = Counter(c.kind for c in registry_changes("2.13", "2.14"))
    assert kinds == {"new": 7, "gone": 4, "schema": 5}
    (polar,) = registry_changes("2.13", "2.14", "linalg_polar.out")
    assert polar.kind == "new" and not polar.before


def test_the_command(capsys):
    assert main(["changes", "2.13", "2.14"]) == 0
    said = capsys.readouterr().out
    assert "Other values" in said and "New overloads" in said and "quantile" in said
    assert main(["changes", "2.13", "2.14", "quantile"]) == 0
    said = capsys.readouterr().out
    assert "before 2.14: float32[] 1" in said and "since 2.14:  float32[] 2" in said and "embedding" not in said
    assert main(["changes", "2.13", "2.14", "arange", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "arange-of-floats-as-int64" in [c["id"] for c in told["changes"]] and told["registry"] == []
    assert main(["changes", "2.13", "sin"]) == 0


@pytest.mark.parametrize("words", [["2.0", "2.14"], ["2.12", "2.13", "2.14"], ["2.13", "sin", "cos"]])
def test_a_wrong_command(capsys, words):
    assert main(["changes", *words]) == 2
    assert capsys.readouterr().err.startswith("torchnp changes: ")


def test_explain_tells(capsys):
    assert main(["explain", "torch.quantile"]) == 0
    assert "torch 2.14: quantile and nanquantile of float32" in capsys.readouterr().out
