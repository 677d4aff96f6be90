"""The harness's rooms: each imports from those before it alone, and no module imports itself by way of others."""

from pathlib import Path

import opinfo_tests
from torchnp.tests.test_imports import check, imported

ROOT = Path(opinfo_tests.__file__).parent
ROOMS = ("backends", "judge", "draw", "report", "run", "mutate")


def modules(room):
    return {f"opinfo_tests.{room}.{p.stem}": p.read_text(encoding="utf-8") for p in (ROOT / room).glob("*.py")}


def test_a_room_imports_from_those_before_it():
    everything = {name: text for room in ROOMS for name, text in modules(room).items()}
    for i, room in enumerate(ROOMS):
        later = tuple(f"opinfo_tests.{r}." for r in ROOMS[i + 1 :])
        for name, source in modules(room).items():
            assert [n for n in imported(name, source, everything) if n.startswith(later)] == [], name


def test_no_import_circles():
    check({name: text for room in ROOMS for name, text in modules(room).items()})
