"""Exports models, and compares a program's results on a library with torch's values."""

from __future__ import annotations

import copy
import functools
import io
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch

import torchnp
from torchnp import dtypes as dt
from torchnp.interop import to_numpy
from torchnp.tests.portable.models import EXAMPLES

# Sums of float32 in another order differ by some ULPs of the largest term; a bfloat16 has 8 bits.
TOLERANCE = {dt.float32: 2e-5, dt.complex64: 2e-5, dt.float64: 1e-12, dt.bfloat16: 2e-2}


class Exported(NamedTuple):
    """A program's archive, its arguments, torch's results, and torch's buffers after the call."""

    archive: bytes
    inputs: list[np.ndarray]
    wanted: list[np.ndarray]
    buffers: dict[str, np.ndarray]


def leaves(x: Any) -> list[Any]:
    if isinstance(x, dict):
        return [v for key in x for v in leaves(x[key])]
    return [v for item in x for v in leaves(item)] if isinstance(x, (tuple, list)) else [x]


def save(program: Any) -> bytes:
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def export(module: torch.nn.Module, args: tuple, core: bool = False, batched: bool = False) -> Exported:
    """Export a module (after ``run_decompositions()`` if ``core``), and run torch."""
    # With opt_einsum, which JAX installs, torch chooses the order of products by sizes, which makes a dynamic size
    # static.
    with warnings.catch_warnings(), torch.backends.opt_einsum.flags(enabled=False):
        warnings.simplefilter("ignore")
        sizes = tuple({0: torch.export.Dim("batch", min=2, max=1 << 30)} for _ in args) if batched else None
        program = torch.export.export(module, args, dynamic_shapes=sizes)
        program = program.run_decompositions() if core else program
        torch.manual_seed(0)
        again = copy.deepcopy(module)
        with torch.no_grad():
            found = again(*(x.clone() for x in args))
    numpy = lambda x: to_numpy(x.detach()).copy()
    buffers = {name: numpy(x) for name, x in again.named_buffers()}
    return Exported(save(program), list(map(numpy, args)), list(map(numpy, leaves(found))), buffers)


@functools.cache
def example(name: str, core: bool = False) -> Exported:
    """Return one of the models, exported."""
    torch.manual_seed(0)
    made = EXAMPLES[name]
    module = made.make()
    module = module if name == "bntrain" else module.eval()
    dynamic = made.batched and name not in ("lstm", "gru")  # torch makes the states of recurrent layers static
    return export(module, made.arguments(), core, dynamic)


def load(exported: Exported, xp: Any, **options: Any) -> Any:
    return torchnp.load(io.BytesIO(exported.archive), xp=xp, **options)


def check(program: Any, found: Any, exported: Exported) -> None:
    """Compare results with torch's: dtypes, shapes and integers are equal, floats near."""
    results = [program.lib.to_numpy(x) for x in leaves(found)]
    assert len(results) == len(exported.wanted)
    for result, wanted in zip(results, exported.wanted):
        near(result, wanted)


def near(result: np.ndarray, wanted: np.ndarray) -> None:
    assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype not in TOLERANCE:
        np.testing.assert_array_equal(result, wanted)
        return
    wide = dt.opmath(wanted.dtype)
    a, b = result.astype(wide), wanted.astype(wide)
    np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b))
    scale = np.max(np.abs(b[np.isfinite(b)]), initial=0.01)
    assert np.max(np.abs(a - b)[np.isfinite(b)], initial=0) <= TOLERANCE[wanted.dtype] * scale
