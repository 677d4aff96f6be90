"""The harness's packages: each imports only from those listed before it, and there are no import circles."""

from pathlib import Path

import pytest

import opinfo_tests
from torchnp.tests.test_imports import check, imported, module_name, run_before

ROOT = Path(opinfo_tests.__file__).parent
ROOMS = ("backends", "judge", "generate", "report", "run", "mutate")


def modules(room):
    found = {module_name(p, ROOT): p.read_text(encoding="utf-8") for p in (ROOT / room).rglob("*.py")}
    assert found, room
    return found


def test_a_room_imports_from_those_before_it():
    everything = {name: text for room in ROOMS for name, text in modules(room).items()}
    for i, room in enumerate(ROOMS):
        later = tuple(f"opinfo_tests.{r}." for r in ROOMS[i + 1 :])
        for name, source in modules(room).items():
            assert [n for n in imported(name, source, everything) if n.startswith(later)] == [], name


@pytest.mark.parametrize("edges", [imported, run_before])
def test_no_import_circles(edges):
    check({name: text for room in ROOMS for name, text in modules(room).items()}, edges)
