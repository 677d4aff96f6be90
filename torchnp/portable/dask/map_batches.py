"""`torchnp.map_batches`: run a program on each block of rows of a Dask array, bag or dataframe."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from torchnp.core.optional_deps import explained
from torchnp.portable import draws
from torchnp.portable.functionalize import functionalize
from torchnp.runtime import Program, load
from torchnp.runtime.graph import Meta, Ref
from torchnp.runtime.program import UserInput
from torchnp.runtime.symbols import evaluate, symbols

ndarray = np.ndarray


def map_batches(
    file: str | os.PathLike, data: Any, *more: Any, model: str | None = None, columns: Sequence[Any] | None = None
) -> Any:
    """Run an exported program on each block of rows of a Dask collection; nothing is computed yet.

    The program must treat each row of its batch independently: a row's result may not depend on the other rows of its
    block. (Other programs can run with ``torchnp.load(file, xp="dask")``.) Each worker opens the file once, by its
    path, so the path must lead to the same file on all workers.

    Parameters
    ----------
    file : str or path
        An archive that ``torch.export.save`` wrote; the first dimension of each argument is a batch of dynamic size.
    data, *more : Dask array, bag or dataframe
        The program's arguments, in order. Arrays are cut along their first dimension, all in the chunks of the first
        array. An element of a bag is one row: an array, or a tuple of arrays if the program has several arguments. A
        dataframe's columns are the columns of the program's only argument. Numbers in bags and dataframes are converted
        to the dtype that the program takes.
    model : str, optional
        The program's name, if the archive holds several.
    columns : list, optional
        The columns of a dataframe that are passed to the program, in order; all by default.

    Returns
    -------
    collection
        For arrays: arrays in the structure of the program's result. For a bag: a bag with the result of each row. For a
        dataframe: a dataframe with the same index, or a series if the result has one dimension.

    Raises
    ------
    TypeError
        ``data`` is not one of these collections, or ``file`` is not a path.
    ValueError
        An argument or result has no batch dimension, or the program writes to buffers or draws random numbers.
    RuntimeError
        Shapes or dtypes do not fit the program, in torch's words.
    """
    if not isinstance(file, (str, os.PathLike)):
        raise TypeError(f"map_batches takes the path of a program, which each worker reads, not {type(file).__name__}")
    home = type(data).__module__.partition(".")[0]
    if home != "dask":
        raise TypeError(
            f"map_batches takes a Dask array, bag or dataframe, not {type(data).__name__}; "
            "on one machine, call torchnp.load(file)(x)"
        )
    try:
        import dask.array
    except ModuleNotFoundError as error:
        raise explained(error, "map_batches", "dask", "dask") from None
    worker = WorkerProgram(str(Path(file).resolve()), model)
    batched = BatchedProgram(worker.program)
    if isinstance(data, dask.array.Array):
        return _on_arrays(worker, batched, [data, *more])
    if more:
        raise TypeError(f"map_batches takes one {type(data).__name__}, which holds all arguments of the program")
    if hasattr(data, "to_dataframe") and hasattr(data, "map_partitions"):
        return data.map_partitions(_RowByRow(worker, [meta.dtype for meta in batched.inputs]))
    return _on_frame(worker, batched, data, columns)


class BatchedProgram:
    """A program's batches as the archive describes them: dtypes and shapes of the arguments and results of a row.

    Raises
    ------
    ValueError
        There are no batch dimensions, or calls would not be independent.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        graph, signature = functionalize(program.graph, program.signature)
        self.inputs: list[Meta] = []
        for spec in signature.inputs:
            if isinstance(spec, UserInput):
                if spec.meta is None or not spec.meta.shape or not symbols(spec.meta.shape[0]):
                    raise ValueError(
                        f"the argument {spec.name!r} has no batch of dynamic size in front: export the module with "
                        "dynamic_shapes, for instance ({0: torch.export.Dim('batch')},)"
                    )
                self.inputs.append(spec.meta)
        if not self.inputs:
            raise ValueError("the program takes no arguments")
        self.batch = self.inputs[0].shape[0]
        if written := [name for kind, name in signature.outputs if kind in ("state", "input")]:
            raise ValueError(f"the program writes to {written[0]!r}: its calls are not independent of each other")
        for _, node in graph.walk():
            if draws.is_random(node) or draws.is_drawn(node):
                raise ValueError(f"{node.target} draws random numbers, of which each worker would have its own")
        self.results: list[Meta] = []
        for output, (kind, _) in zip(graph.outputs, signature.outputs):
            if kind == "user":
                meta = graph.tensors.get(output.name) if isinstance(output, Ref) else None
                if meta is None or not meta.shape or meta.shape[0] != self.batch:
                    raise ValueError("a result of the program has no batch in front: map_batches joins results by rows")
                self.results.append(meta)

    def checked(self, rows: int, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[Any]) -> dict[str, int]:
        """Check a call's arguments, whose rows have these shapes and dtypes; return the value of each symbol."""
        given = [np.broadcast_to(np.zeros((), d), (rows, *shape)) for shape, d in zip(shapes, dtypes, strict=True)]
        args, kwargs = self.arguments(given)
        return self.program.check_arguments(*args, **kwargs)

    def arguments(self, given: Sequence[Any]) -> tuple[tuple, dict[str, Any]]:
        """Return a call's arguments in the module's structure."""
        if len(given) != len(self.inputs):
            raise TypeError(f"the program takes {len(self.inputs)} arrays, and {len(given)} are given")
        return self.program.arrange(dict(zip(self.program.inputs, given)))


class WorkerProgram:
    """A program that is pickled as its file's path; each process loads it at the first call."""

    def __init__(self, path: str, model: str | None) -> None:
        self.path, self.model = path, model

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerProgram, (self.path, self.model)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return WorkerProgram.__name__, self._key()

    def _key(self) -> tuple[Any, ...]:
        """Return a key for the file's content, which changes when the file is rewritten; then it is loaded again."""
        found = os.stat(self.path)
        return self.path, self.model, found.st_mtime_ns, found.st_size

    @property
    def program(self) -> Program:
        """The program as this process has loaded it."""
        key = self._key()
        with _LOCK:
            if key not in _LOADED:
                _LOADED[key] = load(self.path, self.model)
            return _LOADED[key]

    def __call__(self, *blocks: ndarray) -> list[ndarray]:
        """Run the program on arguments in its order; return the leaves of the result."""
        program = self.program
        args, kwargs = program.arrange(dict(zip(program.inputs, map(np.asarray, blocks))))
        if id(program) in _READY:
            return program.signature.gives.flatten(program(*args, **kwargs))
        with _LOCK:  # the first call rearranges the weights, which no other thread may read meanwhile
            found = program(*args, **kwargs)
            _READY.add(id(program))
        return program.signature.gives.flatten(found)


_LOADED: dict[tuple[Any, ...], Program] = {}
_READY: set[int] = set()  # programs that have been called
_LOCK = threading.RLock()


# ---------------------------------------------------------------- arrays


def _on_arrays(worker: WorkerProgram, batched: BatchedProgram, arrays: list[Any]) -> Any:
    import dask.array as da

    whole = lambda x, rows: x.rechunk({0: rows, **dict.fromkeys(range(1, x.ndim), -1)})
    if not all(isinstance(x, da.Array) and x.ndim for x in arrays):
        raise TypeError("map_batches takes Dask arrays with rows")
    rows = arrays[0].chunks[0]
    known = [n for n in rows if n == n]  # for arrays made from a dataframe, they are NaN
    sizes: dict[str, int] = {}
    for n in {min(known), max(known)} if known else {2}:
        sizes = batched.checked(n, [x.shape[1:] for x in arrays], [x.dtype for x in arrays])
    xs = [arrays[0].rechunk(dict.fromkeys(range(1, arrays[0].ndim), -1)), *(whole(x, rows) for x in arrays[1:])]
    letters = iter(range(1, 1000))
    indices = [(0, *(next(letters) for _ in x.shape[1:])) for x in xs]
    made = da.blockwise(
        _Leaves(worker), (0,), *(v for pair in zip(xs, indices) for v in pair), dtype=object, concatenate=True,
        meta=np.empty((0,), object), align_arrays=False,
    )  # fmt: skip
    leaves = []
    for i, meta in enumerate(batched.results):
        rest = [evaluate(n, sizes) for n in meta.shape[1:]]
        new = {next(letters): n for n in rest}
        empty = np.empty((0,) * len(meta.shape), meta.dtype)
        leaves.append(da.blockwise(_Leaf(i), (0, *new), made, (0,), new_axes=new, dtype=meta.dtype, meta=empty))
    return batched.program.signature.gives.build(iter(leaves))


class _Leaves:
    """A function that maps a block of rows to the list of its results."""

    def __init__(self, worker: WorkerProgram) -> None:
        self.worker = worker

    def __call__(self, *blocks: Any) -> list[ndarray]:
        return self.worker(*blocks)


class _Leaf(int):
    """A function that selects one result of the list."""

    def __call__(self, leaves: list[ndarray]) -> ndarray:
        return leaves[self]


# ---------------------------------------------------------------- bags and dataframes


class _RowByRow:
    """A function that maps a partition of a bag to an iterator over results."""

    def __init__(self, worker: WorkerProgram, dtypes: list[np.dtype]) -> None:
        self.worker, self.dtypes = worker, dtypes

    def __call__(self, partition: Any) -> Iterator[Any]:
        rows = list(partition)
        if not rows:
            return
        listed = [rows] if len(self.dtypes) == 1 else zip(*rows, strict=True)
        leaves = self.worker(*(np.stack([np.asarray(x, d) for x in xs]) for xs, d in zip(listed, self.dtypes)))
        gives = self.worker.program.signature.gives
        for row in zip(*leaves):
            yield gives.build(iter(row))


def _on_frame(worker: WorkerProgram, batched: BatchedProgram, data: Any, columns: Sequence[Any] | None) -> Any:
    import pandas as pd

    if not hasattr(data, "columns"):
        raise TypeError(f"map_batches takes a Dask array, bag or dataframe, not {type(data).__name__}")
    if len(batched.inputs) != 1 or len(batched.results) != 1:
        raise ValueError(
            f"a dataframe holds one argument and one result, and the program has {len(batched.inputs)} and "
            f"{len(batched.results)}: give arrays (data.to_dask_array())"
        )
    (taken,), (given) = batched.inputs, batched.results[0]
    chosen = list(data.columns if columns is None else columns)
    sizes = batched.checked(2, [(len(chosen),)], [taken.dtype])
    rest = [evaluate(n, sizes) for n in given.shape[1:]]
    if len(rest) > 1:
        raise ValueError(f"a result of {len(rest) + 1} dimensions does not fit into a dataframe: give an array")
    index = data._meta.index
    empty = np.empty((0, *rest), given.dtype)
    meta = pd.DataFrame(empty, index=index) if rest else pd.Series(empty, index=index)
    return data.map_partitions(_FramePart(worker, chosen, taken.dtype), meta=meta)


class _FramePart:
    """A function that maps a partition of a dataframe to a partition of the results."""

    def __init__(self, worker: WorkerProgram, columns: list[Any], dtype: np.dtype) -> None:
        self.worker, self.columns, self.dtype = worker, columns, dtype

    def __call__(self, part: Any) -> Any:
        import pandas as pd

        (found,) = self.worker(part[self.columns].to_numpy(self.dtype))
        return (pd.DataFrame if found.ndim > 1 else pd.Series)(found, index=part.index)
