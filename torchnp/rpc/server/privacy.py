"""The one gate through which values leave a server.

A buffer is public while all that was written to it came from the client or was computed from that alone; owners'
datasets are not, nor is anything that an operator computed with them.
"""

from __future__ import annotations

import numpy as np

from torchnp.rpc.exceptions import PrivacyError
from torchnp.rpc.server.books import Entry

WITHHELD = "the operator failed on an owner's data; its message is withheld, as it may hold values"


def release(entry: Entry) -> np.ndarray:
    """The exact values of an object.

    Raises
    ------
    PrivacyError
        The object is an owner's data or was computed from it.
    """
    if entry.array is None or entry.buffer is None:
        raise ValueError("a failed object has no values")
    if not entry.buffer.public:
        raise PrivacyError(
            f"exact values of owner data are not released: this tensor of shape {tuple(entry.array.shape)} is a dataset "
            "of the server's or was computed from one"
        )
    return entry.array
