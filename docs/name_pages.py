"""Write the two tables of names: what each public function of one library is in the other, and what to write instead."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np
import torch

from torchnp.catalogue import CATALOGUE
from torchnp.lookup.meaning import meaning_of
from torchnp.lookup.telling import told

SPACES: dict[str, dict[str, Any]] = {
    "numpy": {"np": np, "np.ndarray": np.ndarray, "np.linalg": np.linalg, "np.fft": np.fft, "np.random": np.random},
    "torch": {
        "torch": torch, "Tensor": torch.Tensor, "F": torch.nn.functional, "torch.linalg": torch.linalg,
        "torch.fft": torch.fft, "torch.special": torch.special,
    },
}  # fmt: skip
WITH_PROPERTIES = ("np.ndarray", "Tensor")
TITLES = {"numpy": "NumPy's functions in torch", "torch": "torch's functions in NumPy"}
STATES = ("same", "differs", "no counterpart", "not of arrays")
WORDS = {
    "same": "no difference is known",
    "differs": "each difference is named, and leads to its example",
    "no counterpart": "with what to write instead, where there is a short way",
    "not of arrays": "files, devices, states and other things beside arrays",
}

# The page is one table; these lines hide the rows that are not asked for.
FILTER = """
<p><input id="words" type="search" placeholder="part of a name or of an answer" aria-label="filter the rows" class="form-control" style="max-width: 24em; display: inline-block">
<select id="state" aria-label="state" class="form-select" style="max-width: 14em; display: inline-block"><option value="">every state</option>{options}</select>
<span id="count" role="status"></span></p>
<script>
addEventListener("DOMContentLoaded", () => {{
  const words = document.getElementById("words"), state = document.getElementById("state");
  const rows = [...document.querySelectorAll("#names tbody tr")].map(row => [row, row.textContent.toLowerCase(), row.dataset.state]);
  const show = () => {{
    const asked = words.value.toLowerCase().trim();
    let n = 0;
    for (const [row, text, is] of rows) {{
      row.hidden = !text.includes(asked) || (state.value && state.value !== is);
      n += !row.hidden;
    }}
    document.getElementById("count").textContent = `${{n}} of ${{rows.length}}`;
  }};
  words.addEventListener("input", show); state.addEventListener("change", show); show();
}});
</script>
"""


def public_names(library: str) -> Iterator[str]:
    """Functions and methods, of classes properties too."""
    for space, held in SPACES[library].items():
        for name in dir(held):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what is deprecated
                value = getattr(held, name, None)
            is_one = callable(value) or space in WITH_PROPERTIES
            if not name.startswith("_") and is_one and not isinstance(value, types.ModuleType):
                yield f"{space}.{name}"


def name_page(library: str, places: dict[str, str]) -> str:
    """A table of all names of a library; ``places`` are the addresses of differences by their ids."""
    rows, counts = [], dict.fromkeys(STATES, 0)
    for name in public_names(library):
        meaning = meaning_of(name)
        if meaning is None:
            continue
        known = told(meaning)
        state = state_of(known, library)
        counts[state] += 1
        cells = [f"<code>{escape(name)}</code>", state, counterpart(known, library), how(known, library, places)]
        rows.append((state, f'<tr data-state="{state}">' + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"))
    rows.sort(key=lambda row: row[0] == "not of arrays")  # last, and else as they come
    other = "torch" if library == "numpy" else "NumPy"
    options = "".join(f"<option>{s}</option>" for s in STATES)
    lines = [
        f"# {TITLES[library]}",
        "",
        f"{sum(counts.values()):,} public names. `torchnp explain NAME` shows one of them with its examples.",
        "",
    ]
    lines += [f"- **{state}**: {n:,}, {WORDS[state]}" for state, n in counts.items()]
    table = [
        '<table id="names" class="table" style="table-layout: fixed; width: 100%; overflow-wrap: anywhere">',
        '<colgroup><col style="width: 22%"><col style="width: 13%"><col style="width: 20%"><col></colgroup>',
        f"<thead><tr><th>name</th><th>state</th><th>in {other}</th><th>differences, and what to write</th></tr></thead>",
        "<tbody>", *(text for _, text in rows), "</tbody></table>",
    ]  # fmt: skip
    return "\n".join([*lines, "", "```{raw} html", FILTER.format(options=options).strip(), *table, "```", ""])


def state_of(known: dict[str, Any], library: str) -> str:
    if known["kind"] == "left out":
        return "not of arrays"
    if known["differences"]:
        return "differs"
    has = known["op"] if library == "numpy" else known["numpy"]
    return "same" if has else "no counterpart"


def counterpart(known: dict[str, Any], library: str) -> str:
    names = [known["torch"] or known["op"]] if library == "numpy" else known["numpy"]
    return ", ".join(f"<code>{escape(n)}</code>" for n in names if n and not n.endswith("__"))


def how(known: dict[str, Any], library: str, places: dict[str, str]) -> str:
    """What differs, each linked to its place, and calls of the other library that say the same."""
    if known["kind"] == "left out":
        return escape(known["says"])
    links = [f'<a href="../{places[d["id"]]}">{escape(CATALOGUE[d["id"]].title)}</a>' for d in known["differences"]]
    found = ["; ".join(links)] if links else []
    for call in known["calls"]:
        written = call["torch" if library == "numpy" else "numpy"]
        found.append(f"<code>{escape(written)}</code> {escape(call['says'])}".strip())
    return "<br>".join(found)
