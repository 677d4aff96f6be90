"""Write the tables of names: the counterparts of each library's public functions in the other, and of Python's
operators.
"""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Iterator
from html import escape
from typing import Any
from urllib.parse import quote

import numpy as np
import torch

from torchnp.difference_catalogue import CATALOGUE
from torchnp.lookup import op_index, spellings
from torchnp.lookup.render import told
from torchnp.lookup.resolve import meaning_of

SPACES: dict[str, dict[str, Any]] = {
    "numpy": {"np": np, "np.ndarray": np.ndarray, "np.linalg": np.linalg, "np.fft": np.fft, "np.random": np.random},
    "torch": {
        "torch": torch, "Tensor": torch.Tensor, "F": torch.nn.functional, "torch.linalg": torch.linalg,
        "torch.fft": torch.fft, "torch.special": torch.special,
    },
}  # fmt: skip
WITH_PROPERTIES = ("np.ndarray", "Tensor")
LIBRARIES = (*SPACES, "python")  # each library has a table
TITLES = {
    "numpy": "NumPy's functions in torch", "torch": "torch's functions in NumPy", "python": "Python's operators in both",
}  # fmt: skip
OTHERS = {"numpy": "torch", "torch": "NumPy", "python": "torch and NumPy"}
STATES = ("same", "differs", "no counterpart", "not of arrays")
WORDS = {
    "same": "no difference is known",
    "differs": "each difference is named, and leads to its example",
    "no counterpart": "with what to write instead, where there is a short way",
    "not of arrays": "files, devices, states and other things beside arrays",
}

# The page is one table; these lines hide the rows that do not match the filter.
FILTER = """
<p><input id="words" type="search" placeholder="part of a name or of an answer" aria-label="filter the rows" class="form-control">
<select id="state" aria-label="state" class="form-select"><option value="">every state</option>{options}</select>
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
    """Yield a library's functions, methods, properties, dtypes and constants; for "python", the operators."""
    if library == "python":
        yield from spellings.PYTHON
        return
    for space, held in SPACES[library].items():
        for name in dir(held):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about deprecated names
                value = getattr(held, name, None)
            if name.startswith("_") or isinstance(value, types.ModuleType):
                continue
            full = f"{space}.{name}"
            if callable(value) or space in WITH_PROPERTIES or (name[0].islower() and meaning_of(full)):
                yield full


@functools.cache
def _libraries() -> dict[str, str]:
    return {name: library for library in LIBRARIES for name in public_names(library)}


def row_id(name: str) -> str:
    return name.replace(" ", "_")


def place_of(name: str) -> str | None:
    """Return the address of a public name's row; None if the name has no row."""
    library = _libraries().get(name)
    return library and f"names/{library}.html#{quote(row_id(name))}"


def name_page(library: str, places: dict[str, str]) -> str:
    """Return the table of all names of a library; ``places`` has the addresses of differences by their ids."""
    rows, counts = [], dict.fromkeys(STATES, 0)
    for name in public_names(library):
        meaning = meaning_of(name)
        if meaning is None:
            continue
        known = told(meaning)
        state = state_of(known, library)
        counts[state] += 1
        cells = [f"<code>{escape(name)}</code>", state, counterpart(known, library), how(known, library, places)]
        if library == "numpy":
            cells.insert(3, f"<code>{known['on_tensors']}</code>" if known["on_tensors"] else "")
        rows.append(
            (
                state,
                f'<tr id="{escape(row_id(name))}" data-state="{state}">'
                + "".join(f"<td>{c}</td>" for c in cells)
                + "</tr>",
            )
        )
    rows.sort(key=lambda row: row[0] == "not of arrays")  # these come last; the others keep their order
    options = "".join(f"<option>{s}</option>" for s in STATES if counts[s])
    lines = [
        f"# {TITLES[library]}",
        "",
        f"{sum(counts.values()):,} {'spellings' if library == 'python' else 'public names'}. `torchnp explain "
        f"NAME` shows one of them with its examples.",
        "",
    ]
    lines += [f"- **{state}**: {n:,}, {WORDS[state]}" for state, n in counts.items() if n]
    table = [
        '<table id="names" class="table">',
        f"<thead><tr><th>name</th><th>state</th><th>in {OTHERS[library]}</th>"
        f"{'<th>on tensors with this meaning</th>' if library == 'numpy' else ''}<th>differences, and what to write</th></tr></thead>",
        "<tbody>", *(text for _, text in rows), "</tbody></table>",
    ]  # fmt: skip
    return "\n".join([*lines, "", "```{raw} html", FILTER.format(options=options).strip(), *table, "```", ""])


def state_of(known: dict[str, Any], library: str) -> str:
    if known["kind"] == "left out":
        return "not of arrays"
    if known["differences"]:
        return "differs"
    has = known["numpy"] if library == "torch" else known["op"]
    return "same" if has else "no counterpart"


def counterpart(known: dict[str, Any], library: str) -> str:
    names = [known["torch"] or known["op"]] if library != "torch" else []
    names += known["numpy"] if library != "numpy" else []
    names = [known["counterpart"]] if known["counterpart"] else names
    return ", ".join(f"<code>{escape(n)}</code>" for n in names if n and not n.endswith("__"))


def how(known: dict[str, Any], library: str, places: dict[str, str]) -> str:
    """Return the differences as links, the equivalent calls in the other library, and the operators if there are
    several.
    """
    said = [escape(known["says"])] if known["kind"] == "left out" else []
    if known["without"] and library != "numpy":
        said.append(escape(known["without"]))
    links = [f'<a href="../{places[d["id"]]}">{escape(CATALOGUE[d["id"]].title)}</a>' for d in known["differences"]]
    found = [*said, "; ".join(links)] if links else said
    for call in known["calls"]:
        written = [call["torch"]] if library != "torch" else []
        written += [call["numpy"]] if library != "numpy" and call["numpy"] not in written else []
        found.append(" ".join([*(f"<code>{escape(w)}</code>" for w in written), escape(call["says"])]).strip())
    if known["also"]:
        found.append(f"Operators: {', '.join(_operator(op) for op in (known['op'], *known['also']))}")
    return "<br>".join(found)


def _operator(op: str) -> str:
    packet = op.partition(".")[0]
    shown = f"<code>{escape(op.removeprefix('aten::'))}</code>"
    provided = any(name in op_index.rows() for name in op_index.overloads()[packet])
    return f'<a href="../ops/{packet.replace("::", ".")}.html">{shown}</a>' if provided else shown
