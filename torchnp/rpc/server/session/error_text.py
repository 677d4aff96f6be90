"""Sanitize error texts for clients: no names of the server's files."""

from __future__ import annotations

import re

MAX_TEXT = 8192  # characters

# A quoted path with any characters, or a bare one. No path starts after a word, colon or slash (and/or, tcp://HOST).
_PATHS = re.compile(r"""(?P<quote>['"])/[^'"\n]*(?P=quote)|(?<![\w.:/])/(?:[\w.+~@%=-]+/)*[\w.+~@%=-]+/?""")


def error_text(error: object) -> str:
    """Sanitize an error or a text for a client.

    Parameters
    ----------
    error : exception or str

    Returns
    -------
    str
        The first `MAX_TEXT` characters, with ``<file>`` in place of absolute paths.
    """
    text = str(error)[:MAX_TEXT]
    return _PATHS.sub("<file>", text) if "/" in text else text
