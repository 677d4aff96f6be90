"""What an op's page has besides its schemas: arguments, links, source, the results of the harness, and known gaps."""

from __future__ import annotations

import importlib
import inspect
import operator
import sys
import textwrap
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from argument_words import meaning

import torchnp
from opinfo_tests.report import gaps, pass_rates
from torchnp.lookup import array_api_standard, no_counterpart, op_index

PLACES = {
    "torch": "https://docs.pytorch.org/docs/2.13/generated/",
    "numpy": "https://numpy.org/doc/stable/reference/generated/",
    "scipy": "https://docs.scipy.org/doc/scipy/reference/generated/",
}
# The types of arguments that a kernel accepts, by the type in the schema.
TYPES = {
    "Tensor": "ndarray", "Tensor[]": "list of ndarray", "Tensor?[]": "list of ndarray or None", "Scalar": "number",
    "Scalar[]": "list of numbers", "int": "int", "SymInt": "int", "float": "float", "bool": "bool", "str": "str",
    "ScalarType": "dtype", "Layout": "str", "Device": "str", "MemoryFormat": "str", "Generator": "torchnp.Generator",
    "Dimname": "str",
}  # fmt: skip


def head(packet: str, counterparts: list[str]) -> list[str]:
    """Return links to the docs of torch, the counterparts and the standard, and how often plain NumPy is right."""
    lines = []
    caller = op_index.callers().get(packet)
    if caller:
        lines.append(f"In torch: {_linked(_spelled_out(caller), caller)}.")
    if counterparts:
        lines.append(f"NumPy or SciPy counterpart: {', '.join(_linked(x, x) for x in counterparts)}.")
    elif why := no_counterpart.reason(packet):
        lines.append(f"No counterpart in NumPy or SciPy: it {why}.")
    mine = [name for name in torchnp.table if name.partition(".")[0] == packet]
    if standards := list(dict.fromkeys(found for name in mine if (found := op_index.ops()[name]["array_api"]))):
        links = ", ".join(f"[`{name}`]({array_api_standard.address(name)})" for name in standards)
        lines.append(f"In the array API standard: {links}.")
    tried = op_index.tried(mine)
    if tried:
        calls, right = tried["calls"], tried["right"]
        lines.append(f"Called as it is, the counterpart gives torch's answer on {right:,} of {calls:,} calls tried.")
    return ["  \n".join(lines), ""] if lines else []


def _spelled_out(caller: str) -> str:
    space, _, rest = caller.removesuffix("()").partition(".")
    return f"{ {'F': 'torch.nn.functional', 'Tensor': 'torch.Tensor'}.get(space, space) }.{rest}"


def _linked(name: str, shown: str) -> str:
    """Return a name, with a link to its page in the library's docs if the function has a docstring."""
    space = name.partition(".")[0]
    try:
        found: Any = operator.attrgetter(name.partition(".")[2])(importlib.import_module(space))
    except (ImportError, AttributeError):
        return f"`{shown}`"
    there = space in PLACES and "__" not in name and bool(found.__doc__)
    return f"[`{shown}`]({PLACES[space]}{name}.html)" if there else f"`{shown}`"


def arguments(schema: Any) -> list[str]:
    """Return a table of an overload's arguments."""
    if not schema.args:
        return []
    op = f"{schema.namespace}::{schema.base}"
    lines = ["| argument | is | default | means |", "|---|---|---|---|"]
    for a in schema.args:
        marks = ", written" * a.is_write + ", by keyword" * a.kwonly
        default = f"`{a.default!r}`" if a.has_default else ""
        lines.append(f"| `{a.name}` | {_type(a.type)}{marks} | {default} | {meaning(op, a)} |")
    return [*lines, ""]


def _type(text: str) -> str:
    optional = text.endswith("?")
    text = text.removesuffix("?") if optional else text
    if text in TYPES:
        said = TYPES[text]
    elif text.endswith("]"):
        inner, _, length = text.removesuffix("]").partition("[")
        one = TYPES.get(inner, inner)
        said = f"list of {one}" + (f", or one {one}" if length else "")
    else:
        said = text
    return said + (" or None" if optional else "")


def source(row: Any) -> list[str]:
    """Return where the kernel's function is, and its source code in a collapsed section."""
    if row.row is None or row.row.body is None:
        return []
    body = inspect.unwrap(row.row.body)
    place = Path(str(sys.modules[body.__module__].__file__)).relative_to(Path(torchnp.__file__).parent.parent)
    made = body.__code__.co_filename.startswith("<")  # a few lines of code make several rows
    if made:
        return [f"Source: `{place}`.", ""]
    text = textwrap.dedent(inspect.getsource(body)).rstrip()
    head = f"<summary>Source: {place}, line {body.__code__.co_firstlineno}</summary>"
    return ["<details>", head, "", "```python", text, "```", "", "</details>", ""]


def judged(names: list[str]) -> list[str]:
    """Return a table of dtypes by overloads with the numbers of calls that pass in the harness, and the known gaps."""
    lines = []
    rows = {name: pass_rates.read()[name] for name in names if name in pass_rates.read()}
    dtypes = [d for d in pass_rates.ORDER if any(d in row for row in rows.values())]
    if dtypes:
        run = pass_rates.header()
        what = "whole run" if run["tier"] == "full" else f"{run['tier']} tier"
        by = f"torch {run['torch'].partition('+')[0]} and NumPy {run['numpy']}"
        lines += ["## Judged", ""]
        lines += [
            f"Calls that give what torch gives, by the dtype of the first tensor, in the [harness](../harness.md)'s {what} of "
            f"{run['date']} with {by}; *a* of *b* where some do not.",
            "",
        ]
        heads = [f"`{name.partition('::')[2]}`" for name in rows]
        lines += [f"| | {' | '.join(heads)} |", "|---" + "|---:" * len(rows) + "|"]
        for dtype in dtypes:
            cells = (_passed(*row.get(dtype, (0, 0))) for row in rows.values())
            lines.append(f"| {'no tensor' if dtype == 'none' else f'`{dtype}`'} | {' | '.join(cells)} |")
        lines.append("")
    known = [g for g in _gaps() if any(fnmatchcase(name, g.op) for name in names)]
    if known:
        lines += ["What is known to differ from torch (`opinfo_tests/gaps.toml`):", ""]
        lines += [f"- {_escaped(reason)}" for reason in dict.fromkeys(g.reason for g in known)]
        lines.append("")
    return lines


def _passed(good: int, attempted: int) -> str:
    whole = f"{good:,}" if good else ""
    return whole if good == attempted else f"{good:,} of {attempted:,}"


@cache
def _gaps() -> list[Any]:
    return gaps.load(gaps.file_for("table"))


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_").replace("[", "\\[")
