"""Clean error texts for clients: remove file names of the server."""

from __future__ import annotations

import re

MAX_TEXT = 8192  # characters

# An absolute path, quoted (with any characters) or not. A slash after a word, a colon or a slash does not begin a path
# (and/or, tcp://HOST).
_PATHS = re.compile(r"""(?P<quote>['"])/[^'"\n]*(?P=quote)|(?<![\w.:/])/(?:[\w.+~@%=-]+/)*[\w.+~@%=-]+/?""")


def error_text(error: object) -> str:
    """Return the text of an error, cleaned for a client.

    Parameters
    ----------
    error : exception or str

    Returns
    -------
    str
        The first `MAX_TEXT` characters, with ``<file>`` instead of absolute paths.
    """
    text = str(error)[:MAX_TEXT]
    return _PATHS.sub("<file>", text) if "/" in text else text
