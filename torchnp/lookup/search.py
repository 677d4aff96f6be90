"""Search in names, arguments, descriptions of operators, differences, advice and examples, in this order."""

from __future__ import annotations

import difflib
import functools
import re
from collections import Counter
from dataclasses import dataclass

from torchnp.difference_catalogue import CATALOGUE
from torchnp.lookup import argument_names, equivalents, op_index, spellings
from torchnp.lookup.resolve import meaning_of, spelled

KINDS = ("name", "argument", "description", "difference", "advice", "example")
BARE = r"^(?:np|torch|aten|prims)(?:\.|::)"  # prefixes to drop before names are compared

# Filler words of a question such as "what does torch.unique do in NumPy".
FILLERS = {
    "a", "an", "array", "arrays", "tensor", "tensors", "are", "become", "between", "can", "counterpart", "difference",
      "differences", "differ", "do", "does", "equivalent", "explain",
    "for", "from", "how", "i", "in", "is", "mean", "meaning", "my", "numpy", "of", "pytorch", "say", "the", "to", "torch", "use", "using",
    "what", "what's", "why", "with", "write",
}  # fmt: skip


@dataclass(frozen=True)
class Hit:
    """A search result: the name to explain, its kind, and its operators with the main one first."""

    name: str
    kind: str
    ops: tuple[str, ...] = ()


@dataclass(frozen=True)
class SearchEntry:
    """A searchable item, with its text and words to compare with a query."""

    hit: Hit
    text: str
    words: frozenset[str]
    weight: tuple  # decides between equal matches; smaller comes first


def search(query: str, n: int = 10) -> list[Hit]:
    """Return the matches of a query, best first: exact, by all words, by prefix, by substring, by similar spelling.

    The meaning of the query itself comes before all matches. Matches of equal quality come in the order of `KINDS`:
    names, arguments, descriptions, differences, advice, examples.
    """
    wanted = _plain(query)
    words = _words(wanted)
    found = []
    for entry in entries():
        quality = _quality(wanted, words, entry)
        if quality is not None:
            found.append(((quality, KINDS.index(entry.hit.kind), *entry.weight), entry.hit))
    hits = [hit for _, hit in sorted(found, key=lambda pair: pair[0])]
    meant = meaning_of(query) or meaning_of(asked(query))
    if meant is not None:
        hits.insert(0, Hit(meant.name, meant.kind if meant.kind in KINDS else "name", meant.ops))
    if len(hits) < n and " " not in wanted:
        hits += _nearly(wanted)
    return list(dict.fromkeys(hits))[:n]


def near(query: str, n: int = 5) -> list[str]:
    """Return known names that are similar to an unknown one, best first."""
    return list(dict.fromkeys(hit.name for hit in search(query, 3 * n) if hit.kind != "example"))[:n]


def _quality(wanted: str, words: frozenset[str], entry: SearchEntry) -> int | None:
    if wanted == entry.text:
        return 0
    if words and words <= entry.words:
        return 1
    if entry.hit.kind == "example" or len(wanted) < 3:
        return None
    if entry.text.startswith(wanted):
        return 2
    return 3 if wanted in entry.text else None


def asked(query: str) -> str:
    """Return a question without its filler words."""
    return " ".join(w for w in query.rstrip("? ").split() if w.lower() not in FILLERS)


def _plain(query: str) -> str:
    return re.sub(BARE, "", spelled(" ".join(query.split()))).removesuffix("=").lower()


def _words(text: str) -> frozenset[str]:
    return frozenset(w for w in re.split(r"[\W_]+", text.lower()) if w)


@functools.cache
def entries() -> list[SearchEntry]:
    """Return all searchable entries."""
    return [*_names(), *_arguments(), *_descriptions(), *_differences(), *_advice(), *_examples()]


def weight(op: str, name: str) -> tuple:
    """Return the weight of a name.

    It is smaller for aten, for public names, for torch's names, for core operators and for short names.
    """
    base = name.rpartition("::")[2]
    hidden = base.startswith(("_", "mkldnn")) or base.endswith("_") or "backward" in base
    return (op.startswith("prims::"), hidden, name.startswith("np."), not op_index.is_core(op), len(name), name)


def _names() -> list[SearchEntry]:
    made = []
    for op in op_index.overloads():
        space, _, base = op.partition("::")
        made.append(_entry(base if space == "aten" else op, "name", (op,), base, weight(op, base)))
    for name, bases in {**spellings.PYTHON, **spellings.TORCH}.items():
        made.append(_entry(name, "name", tuple(f"aten::{b}"
          for b in bases.split()), name.removeprefix("torch."), (False, False, False, False, len(name),
              name)))  # fmt: skip
    likes = {f"np.{like.removeprefix('numpy.')}": tuple(ops)
      for like, ops in op_index.ops_like().items() if like[:6] == "numpy."}  # fmt: skip
    likes |= {name: tuple(f"aten::{b}" for b in bases.split()) for name, bases in spellings.NUMPY.items()}
    likes |= {
        row.name.partition(" ")[0]: () for row in equivalents.NUMPY_ONLY if row.name.partition(" ")[0] not in likes
    }
    for name, ops in likes.items():
        extra = frozenset(
            w for row in equivalents.NUMPY_ONLY if row.name.startswith(f"{name} ") for w in _words(row.name)
        )
        entry = _entry(name, "name", ops, name.removeprefix("np."), (False, False, True, False, len(name), name))
        made.append(SearchEntry(entry.hit, entry.text, entry.words | extra, entry.weight) if extra else entry)
    return made


def _arguments() -> list[SearchEntry]:
    takers: dict[str, list[str]] = {}
    for op, names in op_index.overloads().items():
        if op.startswith("aten::") and not op.startswith("aten::_") and "backward" not in op:
            for argument in dict.fromkeys(a.name for n in names for a in op_index.schemas()[n].args if not a.is_out):
                takers.setdefault(argument, []).append(op)
    for ops in takers.values():
        ops.sort(key=lambda op: (not op_index.is_core(op), op.endswith("_"), len(op), op))
        del ops[8:]
    for argument, bases in argument_names.ARGUMENTS.items():
        takers[argument] = [f"aten::{b}" for b in bases.split()]
    return [
        _entry(f"{name}=" if name in argument_names.ARGUMENTS else ops[0].partition("::")[2], "argument", tuple(ops),
          name, (0, 0, 0, 0, len(name), name))
        for name, ops in takers.items()
        if ops
    ]  # fmt: skip


def _descriptions() -> list[SearchEntry]:
    made = []
    for op in op_index.overloads():
        if op.startswith("aten::") and "backward" not in op and not op.startswith("aten::_"):
            weight = (0, 0, 0, not op_index.is_core(op), len(op), op)
            base = op.partition("::")[2]
            made += [
                _entry(base, "description", (op,), f"{base} {body.doc}", weight) for body in op_index.bodies(op)[:1]
            ]
    return made


def _differences() -> list[SearchEntry]:
    return [
        _entry(i, "difference", (), f"{i} {d.title} {d.why}", (0, 0, 0, 0, order, i))
        for order, (i, d) in enumerate(CATALOGUE.items())
    ]


def _advice() -> list[SearchEntry]:
    """Return entries for remarks on calls, such as "stable" of sort or "integer division" of floor_divide."""
    rows = [row for row in (*equivalents.EQUIVALENTS, *equivalents.NUMPY_ONLY) if row.say]
    return [_entry(r.name, "advice", (), f"{r.name} {r.say}", (0, 0, 0, 0, k, r.name)) for k, r in enumerate(rows)]


def _examples() -> list[SearchEntry]:
    return [
        _entry(i, "example", (), f"{d.torch} {d.numpy}", (0, 0, 0, 0, order, i))
        for order, (i, d) in enumerate(CATALOGUE.items())
    ]


def _entry(name: str, kind: str, ops: tuple[str, ...], text: str, weight: tuple) -> SearchEntry:
    return SearchEntry(Hit(name, kind, ops), text.lower(), _words(text), weight)


def _nearly(wanted: str) -> list[Hit]:
    """Return names with a similar spelling.

    They are preselected by common letters and letter pairs, then ranked by difflib's ratio.
    """
    wanted = wanted.rpartition(".")[2]
    mine = _pieces(wanted)
    shared = []
    for entry in entries():
        last = entry.text.rpartition(".")[2]
        is_one = entry.hit.kind == "name" or entry.hit.name.endswith("=")
        if is_one and abs(len(last) - len(wanted)) <= 1 + len(wanted) // 3:
            theirs = _pieces(last)
            common = (mine & theirs).total()
            if 2 * common >= max(mine.total(), theirs.total()):
                shared.append((-common / (mine.total() + theirs.total()), last, entry))
    shared.sort(key=lambda row: (row[0], row[2].weight))
    matcher = difflib.SequenceMatcher(b=wanted)
    rated = []
    for _, last, entry in shared[:40]:
        matcher.set_seq1(last)
        rated.append((-matcher.ratio(), KINDS.index(entry.hit.kind), entry.weight, entry.hit))
    rated.sort(key=lambda row: row[:3])
    return [hit for *_, hit in rated]


def _pieces(text: str) -> Counter[str]:
    bounded = f"^{text}$"
    return Counter([*text, *(bounded[k : k + 2] for k in range(len(bounded) - 1))])
