"""Write the index of the site's search, ``searchnames.js``, from the data of ``torchnp explain`` and its search.

The meaning of every known name is found here, so that the script (``_static/search.js``) only compares texts.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from name_pages import LIBRARIES, place_of, public_names
from op_pages import PLACES, page_name

from torchnp.difference_catalogue import CATALOGUE
from torchnp.lookup import argument_names, op_index, search, spellings
from torchnp.lookup.render import told
from torchnp.lookup.resolve import SPELLED, Meaning, meaning_of, module_name
from torchnp.lookup.synonyms import TOPICS

SHOWN = 4  # at most so many pages for one name
EXCLUDED = "ops/index.html#excluded"
# Spellings of the names in torch's registry, in addition to those of `SPELLED`.
REGISTRY = (
    (r"^(?:torch\.ops\.)?aten(?:::|\.)", ""),
    (r"^(?:torch\.ops\.)?prims\.", "prims::"),
    (r"\.default$", ""),
    (r"^torch\.(?=nn\.[A-Z])", ""),
)


def publish(app: Any, failure: Exception | None) -> None:
    """Write the index next to the pages, as a script, because pages opened from a disk cannot read data files."""
    if failure is None and app.builder.format == "html":
        (Path(app.outdir) / "searchnames.js").write_text(script(), encoding="utf-8")


def script() -> str:
    return f"NameSearch.setIndex({json.dumps(index(), ensure_ascii=False, separators=(',', ':'))})\n"


@functools.cache
def index() -> dict[str, Any]:
    """Return everything that the search needs.

    Returns
    -------
    dict
        ``spelled`` and ``bare`` are patterns. ``fillers`` are the filler words of a question. ``pages`` are ``[address,
        title, summary]``. ``names`` are ``[name, page, ...]``, with the pages in the order of their importance for the
        name. ``texts`` are ``[kind, text, page, ...]``. Both are sorted: of two equal matches, the earlier one wins.
        For the ``whole`` kinds, only whole words are compared.
    """
    numbers: dict[str, int] = {}

    def number(address: str) -> int:
        return numbers.setdefault(address, len(numbers))

    names = sorted(_names().items(), key=lambda item: _weight(*item))
    found = [[name, *map(number, pages_of(meaning))] for name, meaning in names]
    texts = [
        [kind, entry.text, *map(number, pages)]
        for kind, entry in sorted(_texts(), key=lambda pair: (pair[0], pair[1].weight))
        if (pages := _pages_of_hit(entry.hit))
    ]
    return {
        "spelled": [*SPELLED, *REGISTRY],
        "bare": search.BARE,
        "fillers": sorted(search.FILLERS),
        "kinds": search.KINDS,
        "whole": [search.KINDS.index("example")],
        "pages": [[address, *_described(address)] for address in numbers],
        "names": found,
        "texts": texts,
    }


def _names() -> dict[str, Meaning]:
    """Return the meaning of each name: of functions, operators, overloads, arguments and differences, also without
    namespaces.
    """
    full = [*_spelt(), *(name for library in LIBRARIES for name in public_names(library))]
    bare = [name.rpartition(".")[2] for name in full if name[:1].isalpha()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about names that NumPy has no longer, or not yet
        meanings = {name: meaning_of(name) for name in dict.fromkeys([*full, *bare])}
    return {name: meaning for name, meaning in meanings.items() if meaning is not None and pages_of(meaning)}


def _spelt() -> Iterator[str]:
    import torch

    for op, overloads in op_index.overloads().items():
        yield from (n.removeprefix("aten::") for n in (op, *overloads))
    yield from (like.replace("numpy.", "np.", 1) for like in op_index.ops_like())
    yield from (name for name in (f"nn.{c}" for c in dir(torch.nn)) if module_name(name))
    own = (spellings.PYTHON, spellings.ALSO, spellings.TORCH, spellings.NUMPY, argument_names.ARGUMENTS, TOPICS)
    for known in (*own, CATALOGUE):
        yield from known
    yield from (f"{argument}=" for argument in argument_names.ARGUMENTS)
    yield from (e.hit.name for e in search.entries() if e.hit.kind == "name")


def _weight(name: str, meaning: Meaning) -> tuple:
    return search.weight(meaning.ops[0] if meaning.ops else "aten::", name)


def _texts() -> Iterator[tuple[int, search.SearchEntry]]:
    """Yield the entries that are not names (arguments, descriptions, differences, advice, examples), with the numbers
    of their kinds.
    """
    for entry in search.entries():
        if entry.hit.kind != "name":
            yield search.KINDS.index(entry.hit.kind), entry


def _pages_of_hit(hit: search.Hit) -> list[str]:
    if hit.kind in ("difference", "example"):
        return [PLACES[hit.name]]
    meaning = None if hit.ops else meaning_of(hit.name)  # advice on a call
    places = pages_of(meaning) if meaning else map(op_place, hit.ops[:SHOWN])
    return [place for place in places if place != EXCLUDED]


def op_place(op: str) -> str:
    """Return the page of an operator, or of an overload's operator."""
    packet = op.partition(".")[0]
    provided = any(name in op_index.rows() for name in op_index.overloads()[packet])
    return f"ops/{page_name(packet)}.html" if provided else EXCLUDED


def pages_of(meaning: Meaning) -> list[str]:
    """Return the pages that explain a name, best first.

    An operator's page comes before the row in the tables of names. The row is included if there is no such page, or if
    it has equivalent calls or several operators.
    """
    if meaning.kind == "difference":
        return [PLACES[meaning.name]]
    ops = list(dict.fromkeys(map(op_place, meaning.ops)))
    row = place_of(meaning.name)
    if row and (not ops or meaning.calls or len(ops) > 1):
        ops.insert(1, row)
    return ops[:SHOWN]


def _described(address: str) -> tuple[str, str]:
    """Return the title of a page, or of a section of one, and a line about it."""
    return _all_described()[address]


@functools.cache
def _all_described() -> dict[str, tuple[str, str]]:
    found = {EXCLUDED: ("excluded operators", "These cannot be functions of arrays.")}
    for op in op_index.overloads():
        if op_place(op) != EXCLUDED:
            said = told(Meaning(op, "torch", (op,)))
            parts = [op if said["torch"] else "", *said["numpy"], said["does"], _counted(said["differences"])]
            found[op_place(op)] = (said["torch"] or op, " · ".join(filter(None, parts)).replace("`", ""))
    for library in LIBRARIES:
        for name in public_names(library):
            meaning = meaning_of(name)
            if meaning is not None:
                found[str(place_of(name))] = (name, _row_described(told(meaning), library))
    found |= {PLACES[i]: (d.title, i) for i, d in CATALOGUE.items()}
    return found


def _row_described(said: dict[str, Any], library: str) -> str:
    calls = [c["numpy" if library == "torch" else "torch"] for c in said["calls"][:1]]
    other = said["numpy"] if library == "torch" else [said["counterpart"] or said["torch"] or said["op"]]
    return " · ".join(filter(None, [said["says"], *other, *calls, _counted(said["differences"])]))


def _counted(differences: list[Any]) -> str:
    n = len(differences)
    return f"{n} difference{'s' * (n > 1)}" if n else ""
