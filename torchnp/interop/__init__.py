"""Everything that joins torchnp to torch itself: conversion on shared memory, and the mode that runs torch on it."""

from torchnp.interop.convert import to_numpy, to_torch
from torchnp.interop.mode import CrossCheckError, MissingKernelError, NumpyMode

__all__ = ["CrossCheckError", "MissingKernelError", "NumpyMode", "to_numpy", "to_torch"]
