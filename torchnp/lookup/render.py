"""The answer of ``torchnp explain``: collected as plain data, and formatted as text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from torchnp.difference_catalogue import CATALOGUE
from torchnp.differences import Difference
from torchnp.lookup import no_counterpart, on_tensors, op_index, spellings
from torchnp.lookup.equivalents import EXAMPLE
from torchnp.lookup.op_index import Fact
from torchnp.lookup.resolve import Meaning, is_called
from torchnp.version_changes import all_changes, as_json

SHOWN = 6  # number of operators to list after the first one
RUN = ("torch", "python")  # for names of these kinds, all operators that they run are listed, public or not


def told(meaning: Meaning) -> dict[str, Any]:
    """Return everything that is known about a name, in the form of the JSON output."""
    ops = [op for op in meaning.ops if op.startswith("aten::")] or list(meaning.ops)
    if meaning.kind == "difference":
        ops.sort(key=lambda op: not is_called(op.partition(".")[0]))
    main = ops[0] if ops else ""
    body, known = _body(main), spellings.COUNTERPARTS.get(meaning.name, "")
    return {
        "name": meaning.name,
        "kind": meaning.kind,
        "says": meaning.says,
        "does": body.doc if body and not known else "",
        "counterpart": known,
        "numpy": [known] if known.startswith("np.") else _counterparts(ops[:1]),
        "on_tensors": on_tensors.spelling(meaning.name) if meaning.kind == "numpy" else "",
        "without": no_counterpart.reason(main.partition(".")[0]) if not meaning.calls else "",
        "array_api": _standard(main),
        "arrays": EXAMPLE if meaning.calls else {},
        "calls": [{"numpy": c.numpy, "torch": c.torch, "says": c.say} for c in meaning.calls],
        "tried": op_index.tried(_overloads(main)) if meaning.kind != "difference" and not known else {},
        "differences": _differences(meaning, ops),
        "changes": _changes(main) if meaning.kind != "difference" else [],
        "op": main,
        "torch": op_index.callers().get(main.partition(".")[0], ""),
        "overloads": [_overload(n) for n in _overloads(main)] if meaning.kind != "difference" else [],
        "also": [op for op in ops[1:] if meaning.kind in RUN or is_called(op.partition(".")[0])],
    }


def _body(op: str) -> Fact | None:
    return next(iter(_bodies(op)), None)


def _bodies(op: str) -> list[Fact]:
    """Return the declarations of the bodies of an op or an overload."""
    if op in op_index.overloads():
        return op_index.bodies(op)
    body = op_index.body_of(op)
    return [] if body is None else [body]


def _overloads(op: str) -> list[str]:
    return op_index.overloads().get(op, [op] if op else [])


def _counterparts(ops: Iterable[str]) -> list[str]:
    likes = dict.fromkeys(f.like for op in ops for f in _bodies(op) if f.like)
    return [like.replace("numpy.", "np.", 1) for like in likes]


def _standard(op: str) -> list[str]:
    """Return the array API counterparts of the rows of an op or an overload."""
    return list(dict.fromkeys(name for n in _overloads(op) if (name := op_index.ops()[n]["array_api"])))


def _differences(meaning: Meaning, ops: list[str]) -> list[dict[str, Any]]:
    if meaning.kind == "difference":
        return [_difference(CATALOGUE[meaning.name], CATALOGUE[meaning.name], None)]
    found: dict[str, dict[str, Any]] = {}
    # A NumPy function means only the first of its operators, unless `spellings.NUMPY` lists several.
    alone = meaning.kind == "numpy" and meaning.name not in spellings.NUMPY
    for op in ops[:1] if alone else ops:
        for body in _bodies(op):
            for i in body.differs:
                if i not in found and i in CATALOGUE:
                    found[i] = _difference(CATALOGUE[i], None, body.packet)
    rows = list(found.values())
    if meaning.kind == "argument":
        word = rf"\b{re.escape(meaning.name.rstrip('='))}"
        about = lambda pattern: [row for row in rows if any(re.search(pattern, str(v)) for v in row.values())]
        said = about(f"{word}=") or about(rf"{word}\b")
        rows = said or ([] if meaning.calls else [row for row in rows if row["torch"]][:3])
    # Differences come first whose catalogue example uses this very operator (unless it is about out=), then others with
    # an example.
    own = lambda row: row["torch"] == CATALOGUE[row["id"]].torch and "out=" not in row["torch"]
    # For an in-place operator, differences about writing in place come first of all.
    writes = lambda row: ops[0].endswith("_") and bool(re.search(r"[a-z]_\(", CATALOGUE[row["id"]].torch))
    return sorted(rows, key=lambda row: (not writes(row), not own(row), not row["torch"]))


def _changes(op: str) -> list[dict[str, Any]]:
    """Return what changed in an operator between versions of torch; changes of all operators are left out."""
    found = [c for c in all_changes() if "*" not in c.ops and any(map(c.touches, _overloads(op)))]
    return [as_json(c) for c in found]


def _difference(d: Difference, example: Any, op: str | None) -> dict[str, Any]:
    own = example or op_index.examples().get((op or "", d.id))
    return {
        "id": d.id,
        "title": d.title,
        "advice": d.why,
        "op": op,
        "torch": own.torch if own else "",
        "torch_value": own.torch_value if own else "",
        "numpy": own.numpy if own else "",
        "numpy_value": own.numpy_value if own else "",
        "in_numpy": own.in_numpy if own else "",
        "in_torch": own.in_torch if own else "",
        "array_api": d.array_api if example or (own and own.torch == d.torch) else "",
        "versions": d.where,
    }


def _overload(name: str) -> dict[str, Any]:
    row = op_index.ops()[name]
    same = ("name", "schema", "status", "rule", "family", "tags", "reason")
    return {key: row[key] for key in same} | {"out": op_index.schemas()[name].is_out, "source": row["derived_from"]}


# ---------------------------------------------------------------- text


def as_text(told: dict[str, Any], bold: Callable[[str], str] = str, faint: Callable[[str], str] = str) -> str:
    """Return the collected data as text, with advice first; ``bold`` and ``faint`` style words for a terminal."""
    parts = [_head(told, bold), _calls(told, bold), _shown(told, bold, faint), _changed(told, bold)]
    return "\n\n".join(filter(None, [*parts, _schemas(told, bold, faint), _also(told)]))


def _head(told: dict[str, Any], bold: Callable[[str], str]) -> str:
    title, kind, op = bold(told["name"]), told["kind"], told["op"]
    if kind == "left out":
        there = "NumPy" if told["counterpart"].startswith("np.") else "torch"
        return f"{title} {told['says']}." + (f" In {there} it is {told['counterpart']}." if told["counterpart"] else "")
    if kind == "difference":
        return f"{title}  {told['differences'][0]['title']}."
    if kind == "argument" and not op:
        torchs = any(told["name"] in call["torch"] and told["name"] not in call["numpy"] for call in told["calls"])
        mine, others = ("torch", "NumPy") if torchs else ("NumPy", "torch")
        return f"{title}  is an argument of {mine}'s functions, and of none of {others}'s"
    if kind == "argument":
        return f"{title}  of {', '.join(dict.fromkeys(_spoken(o) for o in [op, *told['also']]))}"
    counterparts = " or ".join(name for name in told["numpy"] if not name.endswith("__"))
    if kind == "numpy":
        theirs = told["counterpart"] or (_spoken(op) if op else "")
        called = f"is {theirs}" if theirs else "has no counterpart of its own in torch"
    elif kind == "python":
        called = f"runs {_spoken(op)}" + (f", {counterparts} in NumPy" if counterparts else "")
    else:
        why = f": it {told['without']}" if told["without"] else ""
        called = f"is {counterparts} in NumPy" if counterparts else f"has no counterpart of its own in NumPy{why}"
    does = f"\n  {told['does']}" if told["does"] else ""
    if told["array_api"]:
        does += f"\n  In the array API standard {' or '.join(f'xp.{name}' for name in told['array_api'])}."
    if tried := told["tried"]:
        mine = f"{counterparts.partition(' or ')[0]}, called as it is," if counterparts else "The same in NumPy"
        right = f"{mine} is right on {tried['right']:,} of {tried['calls']:,}"
        does += f"\n  {right} calls that the tests made."
    if told["on_tensors"]:
        does += f"\n  On tensors with NumPy's meaning: {told['on_tensors']} (import torchnp.np as tnp)."
    runs = "" if told["name"] in (op, op.partition("::")[2]) else f"\n  It runs {op}."
    missing = f"\n  {told['says']}." if told["says"] else ""
    return f"{title}  {called}{missing}{does}{runs if kind == 'torch' else ''}"


def _spoken(op: str) -> str:
    """Return the name by which Python code calls an op, or else the op's own name."""
    return op_index.callers().get(op) or (
        "F.interpolate" if op.partition("::")[2] in spellings.TORCH["F.interpolate"].split() else op
    )


def _calls(told: dict[str, Any], bold: Callable[[str], str]) -> str:
    lines = []
    used = {w for call in told["calls"] for w in re.findall(r"\b[a-z]+\b", f"{call['numpy']} {call['torch']}")}
    given = [f"{name} = {array}" for name, array in EXAMPLE.items() if name in used]
    for call in told["calls"]:
        lines += [f"  NumPy  {call['numpy']}", f"  torch  {call['torch']}"]
        if call["says"]:
            lines.append(_folded(call["says"], "         "))
    title = "How to write it" if told["kind"] in ("numpy", "argument") and not told["op"] else "The same in both"
    where = [_folded(f"where {', '.join(given)}", "  ")] if given else []
    return "\n".join([bold(title), *lines, *where]) if lines else ""


def _shown(told: dict[str, Any], bold: Callable[[str], str], faint: Callable[[str], str]) -> str:
    if not told["differences"]:
        return f"{bold('Differences')}\n  none is known" if told["kind"] in ("torch", "numpy") and told["numpy"] else ""
    lines = [bold("Differences")]
    for d in told["differences"]:
        where = f"  ({d['versions']})" if d["versions"] else ""
        other = d["op"] and d["op"] != told["op"].partition(".")[0] and told["kind"] == "numpy"
        where += f"  of {_spoken(d['op'])}" if other else ""
        lines.append(f"  {d['title']}.  {faint(d['id'])}{where}")
        if d["advice"]:
            lines.append(_folded(d["advice"], "    "))
        for word, call in (("torch's in NumPy", d["in_numpy"]), ("NumPy's in torch", d["in_torch"])):
            if call:
                lines.append(f"    to get {word}  {bold(call)}")
        if d["torch"]:
            lines += [f"      torch  {d['torch']}", f"             {d['torch_value']}"]
            lines += [f"      NumPy  {d['numpy']}", f"             {d['numpy_value']}"]
        if d["array_api"]:
            lines.append(f"      array API  {d['array_api']}")
    return "\n".join(lines)


def _changed(told: dict[str, Any], bold: Callable[[str], str]) -> str:
    lines = []
    for change in told["changes"]:
        lines += [f"  {bold('torch ' + change['since'])}: {_folded(change['title'], ' ' * 4).lstrip()}"]
        lines += [f"    {change['code']}", f"      before: {change['before']}", f"      since:  {change['after']}"]
    return "\n".join(["Changed between versions of torch:", *lines]) if lines else ""


def _schemas(told: dict[str, Any], bold: Callable[[str], str], faint: Callable[[str], str]) -> str:
    rows = told["overloads"]
    plain = [r for r in rows if not r["out"] or len(rows) == 1]
    lines = []
    for r in plain:
        made = f"derived from {r['source']} ({r['rule']})" if r["source"] else r["status"]
        tags = f", torch tags: {', '.join(r['tags'])}" if r["tags"] else ""
        lines += [f"  {r['schema']}", faint(f"    {made}{_module(r)}{tags}")]
        if r["reason"]:
            lines.append(f"    because it {r['reason']}")
    if outs := [r["name"] for r in rows if r not in plain]:
        lines.append(f"  written into out=: {', '.join(outs)}")
    return "\n".join([bold("Overloads"), *lines]) if lines else ""


def _module(row: dict[str, Any]) -> str:
    """Return the module that declares a row: the file in torchnp, or the module of another library."""
    if not row["family"]:
        return ""
    is_own = op_index.is_own(row["name"])
    return f"  torchnp/kernels/{row['family'].replace('.', '/')}.py" if is_own else f" in {row['family']}"


def _also(told: dict[str, Any]) -> str:
    named = told["name"], _spoken(told["op"])
    spoken = _spoken if told["kind"] != "torch" else str
    names = [name for op in told["also"] if (name := spoken(op)) not in named]
    if not names:
        return ""
    more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    word = {"difference": "Of", "torch": "It also runs", "python": "It also runs"}.get(told["kind"], "See also")
    first = [_spoken(told["op"])] if told["kind"] == "difference" else []
    return f"{word}: {', '.join([*first, *names[:SHOWN]])}{more}"


def _folded(text: str, indent: str) -> str:
    return textwrap.fill(text, 110, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
