"""The error of a matrix that an algorithm on the server cannot handle; its class is torch's, so only programs with torch have it."""

from __future__ import annotations

import torch

from torchnp.rpc.exceptions import RemoteOpError


class RemoteLinAlgError(RemoteOpError, torch.linalg.LinAlgError):
    """A matrix that an algorithm cannot handle, which programs catch by torch's class."""
