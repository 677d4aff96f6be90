"""The torch function to call instead of a NumPy function, and how the two differ, in a few words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from torchnp.difference_catalogue import CATALOGUE
from torchnp.lookup import op_index, render, spellings
from torchnp.lookup.public_name import public_name
from torchnp.lookup.resolve import Meaning, is_called, meaning_of


def in_torch(function: Any) -> tuple[str, str]:
    """Return the torch counterpart of a NumPy function, and how the two differ.

    Parameters
    ----------
    function : callable
        A public function: ``np.std``, ``np.linalg.inv``.

    Returns
    -------
    name, words : str
        A name such as ``"torch.std"``, and what differs: the first difference in words, the others by their ids. If
        there is no counterpart, the name is ``""``, and the words give the call to write if there is one.
    """
    asked = public_name(function).replace("numpy.", "np.", 1)
    meaning = meaning_of(asked) if asked else None
    if meaning is None:
        return "", ""
    name, says = _counterpart(meaning), next((call.say for call in meaning.calls if call.say), "").rstrip(".")
    differences = _differences(name)
    words = [f"it differs: {_lower(CATALOGUE[i].title)}" for i in differences[:1]]
    words += [_lower(says) if words else says] if says else []
    words += [f"also {', '.join(differences[1:])}"] if differences[1:] else []
    for other in dict.fromkeys(re.findall(r"torch(?:\.[a-z]\w*)+", says)):  # these functions differ from NumPy too
        if other != name and (listed := _differences(other)):
            words.append(f"of {other} {', '.join(listed)}")
    return name, "; ".join(words)


def _differences(name: str) -> list[str]:
    """Return the ids of the differences of a public torch name, in the order of `render.told`."""
    meaning = meaning_of(name) if name else None
    if meaning is None or not meaning.ops:
        return []
    return [row["id"] for row in render.told(replace(meaning, ops=meaning.ops[:1]))["differences"]]


def _counterpart(meaning: Meaning) -> str:
    """Return the public torch name of a NumPy name's counterpart, or ""."""
    known = spellings.COUNTERPARTS.get(meaning.name, "")
    if known or not meaning.ops or not is_called(meaning.ops[0]):
        return known
    return op_index.callers()[meaning.ops[0]]


def _lower(title: str) -> str:
    """Return a title as it is written within a sentence."""
    is_name = re.match(r"[A-Z]\S*[A-Z.]|Fourier|Python|Bessel|Dirichlet", title)
    return title if is_name else title[:1].lower() + title[1:]
