"""What of an error's text a client is told: no names of the server's files."""

from __future__ import annotations

import re

MAX_TEXT = 8192  # characters

# A quoted name, whatever is in it, and a bare one; what follows a word, a colon or a slash is none (and/or, tcp://HOST).
_PATHS = re.compile(r"""(?P<quote>['"])/[^'"\n]*(?P=quote)|(?<![\w.:/])/(?:[\w.+~@%=-]+/)*[\w.+~@%=-]+/?""")


def error_text(error: object) -> str:
    """The text of an error, or a text, as a client is told it.

    Parameters
    ----------
    error : exception or str

    Returns
    -------
    str
        At most `MAX_TEXT` characters, with ``<file>`` in the place of absolute paths.
    """
    text = str(error)[:MAX_TEXT]
    return _PATHS.sub("<file>", text) if "/" in text else text
