"""Imported once in the fork server, so that worker processes start with torch loaded; each process uses one thread."""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import torch  # noqa: E402  after the variables that it reads

import torchnp  # noqa: E402

from ..generate.samples import opinfo  # noqa: E402
from . import runner  # noqa: E402

torch.set_num_threads(1)
opinfo.opinfos()
opinfo.registered()
len(torchnp.table)
__all__ = ["runner"]
