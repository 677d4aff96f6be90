"""The client's LinAlgError; it derives from torch's class, so it needs torch."""

from __future__ import annotations

import torch

from torchnp.rpc.exceptions import RemoteOpError


class RemoteLinAlgError(RemoteOpError, torch.linalg.LinAlgError):
    """Raised when an algorithm on the server cannot handle a matrix; programs can catch it as torch's class."""
