"""``torchnp run --dask``: run a program on the workers of a Dask scheduler."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from torchnp.core.optional_deps import explained
from torchnp.portable.load import load
from torchnp.runtime.commands import read_inputs, write_results

_CHUNK = 1 << 24  # bytes of an argument's chunk: a task for each operator and chunk should be worth its overhead


class NpyFile:
    """An array in a file; each task reads only its own rows. It is pickled as the file's path."""

    def __init__(self, path: str, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self.path, self.dtype, self.shape, self.ndim = path, dtype, shape, len(shape)

    def __getitem__(self, key: Any) -> np.ndarray:
        return np.array(np.load(self.path, mmap_mode="r").view(self.dtype)[key])


def run_on_cluster(args: argparse.Namespace) -> int:
    """Run a program on the workers of a scheduler, with its arguments cut along their first dimension."""
    try:
        import dask
        from distributed import Client
    except ModuleNotFoundError as error:
        raise explained(error, "--dask", "dask", "dask", "distributed", "array_api_extra") from None
    program = load(args.program, args.model, xp="dask")
    given = read_inputs(program, args.input)
    files = dict(text.split("=", 1) for text in args.input)
    positional, named = program.arrange(_chunked(given, files))
    with Client(args.dask) as client:
        result = program(*positional, **named)
        leaves = program.signature.gives.flatten(result)
        found = client.gather(client.compute(list(dask.optimize(*leaves))))
        write_results(program, program.signature.gives.build(iter(found)), args.output)
    return 0


def _chunked(given: dict[str, Any], files: dict[str, str]) -> dict[str, Any]:
    """Convert arrays to Dask's; arrays with the same number of rows get the same chunks."""
    import dask.array as da

    arrays = {name: x for name, x in given.items() if isinstance(x, np.ndarray) and x.ndim and x.size}
    rows: dict[int, int] = {}
    for x in arrays.values():
        fit = max(1, _CHUNK * len(x) // max(x.nbytes, 1))
        rows[len(x)] = min(rows.get(len(x), fit), fit)
    found = dict(given)
    for name, x in arrays.items():
        file = NpyFile(str(Path(files[name]).resolve()), x.dtype, x.shape)
        found[name] = da.from_array(file, chunks=(rows[len(x)], *x.shape[1:]), name=False)
    return found
