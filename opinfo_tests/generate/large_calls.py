"""Large calls, for ``--tier large``: recorded calls whose shapes are scaled up and that torch accepts."""

from __future__ import annotations

import resource
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import product
from math import prod
from pathlib import Path

import numpy as np

from ..backends.torch_backend import TorchDevice
from ..case import DTYPES, Array, Case, is_complex, is_float, map_tree, whole, window
from ..schema_facts import all_schemas, is_of_matrices
from . import model_parts
from .drawable import is_trusting
from .samples.extra.make_calls import own_cases
from .samples.opinfo import registered, samples_of, supported
from .samples.opinfo_reach import ranked_sources
from .samples.recording import Recorder
from .task import DRAWN, LARGE, Task, reseed

# limits for the number of elements of the largest array among a call's arguments and results
LEAST, MOST = 100_000, 8_000_000
SIZES = (1 << 17, 1 << 20)  # number of elements after scaling: the larger one is used if torch is fast with the smaller
# seconds of torch's run: below SOON the larger size is tried, above TOO_LONG the call is not used
SOON, TOO_LONG = 0.04, 0.3
CALLS, FORMS = 3, 1  # number of calls for each overload, and for each in-place or out= form
TRIES = 40  # number of scaled calls of an overload that are tried
BASES = 8  # number of recorded calls of an overload that are scaled
FEW = 6  # number of first samples of an entry that all run, see `samples_of`
MEMORY = 6 << 30  # bytes of address space that a tried call may add
POOL = (1 << 17) - 1  # number of random values, which are then repeated; a prime, so that rows or blocks are not equal
LISTS = ("own", "models")  # sources that are lists of calls of many overloads
PREFERRED = ("float32", "complex64", "int64", "float64", "bool")

# Operators that do not check sizes, lengths or positions. If these don't fit, torch reads beyond the arguments, ends
# the process or returns arbitrary memory.
UNCHECKED = (
    "segment_reduce", "_segment_reduce", "_convert_indices_from_csr_to_coo", "_dyn_quant_matmul", "_jagged",
    "_nnpack_spatial_convolution", "_cholesky_solve_helper", "_convolution_double_backward", "_sobol_engine",
    "_transform_bias_rescale_qkv", "_reshape_alias", "lstm", "gru", "rnn_", "mkldnn_rnn", "slow_conv",
)  # fmt: skip
# For images of half types, torch stores positions in 16 bits: it reads outside large images, or ends the process.
OF_SHORT_POSITIONS = ("grid_sampler", "_grid_sampler_2d", "cudnn_grid_sampler")
# Operators whose results are defined only for sorted numbers, which new values are not.
OF_ORDER = ("bucketize", "searchsorted")
# For these, torch compares each element of a row with each of its targets, which takes hours in long rows.
QUADRATIC = ("multilabel_margin_loss",)

Resize = Callable[[int, int], int]  # gets an axis and its size, and returns its new size
Way = Callable[[Case, int], Case | None]  # gets a call and a number of elements; returns a large call


@cache
def source_of() -> dict[str, str]:
    """Return for each overload the source of the calls to scale: the entry with the nearest name, else random calls."""
    found = {}
    for op in registered():
        ranked = [source for source in ranked_sources().get(op, ()) if source not in LISTS]
        found[op] = ranked[0] if ranked else f"{DRAWN}{op}"
    return found


def large_tasks(ops: frozenset[str]) -> list[Task]:
    """Return a task for each layer of a model, and one for each source of recorded calls."""
    sources = sorted({source_of()[op] for op in ops})
    return [
        *(Task(f"{LARGE}layers/{name}", "float32") for name in model_parts.LAYERS),
        *(Task(f"{LARGE}{source}", best_dtype(source)) for source in sources),
    ]


def best_dtype(source: str) -> str:
    if source.startswith(DRAWN):
        return str(BASES)
    have = supported(source)
    return next((d for d in PREFERRED if d in have), min(have))


def run_large(task: Task, recorder: Recorder, seed: int) -> Iterator[None]:
    """Pass the large calls of a task to the recorder's sink; yield after each overload."""
    source = task.source.removeprefix(LARGE)
    if source.startswith("layers/"):
        yield from model_parts.run_layer(source.removeprefix("layers/"), recorder, LEAST)
        return
    ops = [op for op, place in source_of().items() if place == source and recorder.wanted(op) and can_be_scaled(op)]
    bases = recorded(Task(source, task.dtype), frozenset(ops), seed) if ops else {}
    for op in ops:
        for case in scaled(op, bases[op]):
            recorder.sink(replace(case, source=task.source, sample_dtype=case.dtype, digest=""))
        yield


def can_be_scaled(op: str) -> bool:
    """Return whether torch checks everything that an overload requires of its arguments, and takes a reasonable time."""
    return not (is_trusting(op) or op.partition("::")[2].startswith((*UNCHECKED, *OF_ORDER, *QUADRATIC)))


def recorded(task: Task, ops: frozenset[str], seed: int, layouts: bool = False) -> dict[str, list[Case]]:
    """Return calls of overloads to scale: calls of a task, then our own samples.

    With ``layouts``, the same number of calls with arrays in other memory layouts is added.
    """
    found: dict[str, list[Case]] = defaultdict(list)
    shapes, kept = set(), Counter[tuple[str, bool]]()

    def keep(case: Case) -> None:
        key = case.op, not layouts or is_row_major(case)
        shape = key, tuple(a.shape for a in case.arrays())
        if shape not in shapes and kept[key] < BASES and is_base(case):
            shapes.add(shape)
            kept[key] += 1
            found[case.op].append(with_outs(case))

    recorder = Recorder(ops.__contains__, keep, relay=layouts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in samples_of(task, recorder, seed=seed, few=FEW, order=1):
            pass
        for op in ops:
            for case in own_cases(op, BASES):
                keep(case)
    return found


def is_base(case: Case) -> bool:
    """Return whether each array has its own memory, all inputs have elements, and at least one input has dimensions."""
    arrays = case.arrays()
    alone = len({a.buffer for a in arrays}) == len(arrays)
    outs = [case.kwargs.get(name) for name in outs_of(case.op)]
    inputs = [a for a in arrays if not any(a is out for out in outs)]
    return alone and any(a.shape for a in inputs) and all(a.size for a in inputs)


def is_row_major(case: Case) -> bool:
    """Return whether all arrays are row-major without gaps."""
    return all(a.on(case.buffers).flags.c_contiguous for a in case.arrays())


def outs_of(op: str) -> list[str]:
    return [a.name for a in all_schemas()[op].args if a.is_out]


def with_outs(case: Case, results: list[np.ndarray] | None = None) -> Case:
    """Return the case with new ``out=`` arrays for these results, or with empty ones if there are none yet.

    For other shapes torch may write beyond ``out=``.
    """
    names = outs_of(case.op)
    if not names or any(type(case.kwargs.get(name)) is not Array for name in names):
        return case
    if results is None:
        results = [np.empty(0, DTYPES[case.kwargs[name].dtype]) for name in names]
    buffers, kwargs = list(case.buffers), dict(case.kwargs)
    for name, result in zip(names, results, strict=False):
        at = kwargs[name].buffer
        buffers[at], kwargs[name] = whole(np.zeros(result.shape, result.dtype), at)
    return replace(case, kwargs=kwargs, buffers=buffers, digest="")


def scaled(op: str, bases: list[Case]) -> list[Case]:
    """Return large calls that torch accepts: up to `CALLS` calls, scaled in different ways if possible, and others.

    The others have column-major arrays, or a large array in either memory order and small arrays of positions.
    """
    reseed(op)
    calls = FORMS if all_schemas()[op].mutates else CALLS
    usual = accepted(product(WAYS, bases), calls)
    few = accepted(product(WAYS_OF_FEW, bases), FORMS)
    relaid = [*filter(None, map(transposed, usual))][:1] + [*filter(None, map(transposed, few))]
    return usual + few + [case for case in relaid if is_accepted(case)]


def accepted(ways: Iterable[tuple[Way, Case]], calls: int) -> list[Case]:
    """Return up to ``calls`` large calls of different shapes that torch accepts."""
    torch_cpu = TorchDevice("cpu")
    found: list[Case] = []
    shapes, tries = set(), 0
    for way, case in ways:
        if len(found) == calls or tries == TRIES:
            break
        best = None
        for elements in SIZES:
            large = way(case, elements)
            if large is None or reads_outside(large) or tuple(a.shape for a in large.arrays()) in shapes:
                break
            large, seconds, largest = tried(large, torch_cpu)
            tries += 1
            if not LEAST <= largest <= MOST or seconds > TOO_LONG:
                break
            best = large
            if seconds > SOON:
                break
        if best is not None:
            shapes.add(tuple(a.shape for a in best.arrays()))
            found.append(best)
    return found


def is_accepted(case: Case) -> bool:
    _, seconds, largest = tried(case, TorchDevice("cpu"))
    return LEAST <= largest <= MOST and seconds <= TOO_LONG


def reads_outside(case: Case) -> bool:
    """Return whether torch may read outside an image of a half type."""
    samples = case.op.partition("::")[2].startswith(OF_SHORT_POSITIONS)
    return samples and any(a.dtype in ("float16", "bfloat16") for a in case.arrays())


def tried(case: Case, torch_cpu: TorchDevice) -> tuple[Case, float, int]:
    """Run a call on torch; return it with fitting ``out=``, the seconds, and the largest size (0 for an error)."""
    with limited_memory(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = torch_cpu.execute(case)
    if seen.error:
        return case, seen.seconds, 0
    results = [r for r in seen.results if isinstance(r, np.ndarray)]
    sizes = [*(r.size for r in results), *(a.size for a in case.arrays())]
    return with_outs(case, results), seen.seconds, max(sizes)


@contextmanager
def limited_memory(more: int = MEMORY) -> Iterator[None]:
    """Make an allocation of tens of gigabytes fail immediately; otherwise the system might kill the process."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    statm = Path("/proc/self/statm")  # Linux
    if not statm.exists() or before[0] != resource.RLIM_INFINITY:
        yield
        return
    used = int(statm.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


# ---------------------------------------------------------------- ways to scale


def every_size(case: Case, elements: int) -> Case | None:
    """Multiply every size above 1 by the same number."""
    largest = largest_of(case)
    axes = sum(n > 1 for n in largest.shape)
    times = whole_root(elements / largest.size, axes)
    return resized(case, lambda axis, n: n * times if n > 1 else n, times)


def first_size(case: Case, elements: int) -> Case | None:
    """Multiply the first size of the largest array, in each array whose first size equals it."""
    largest = largest_of(case)
    times = whole_root(elements / largest.size, 1)
    return resized(case, lambda axis, n: n * times if axis == 0 and n == largest.shape[0] else n, times)


def last_size(case: Case, elements: int) -> Case | None:
    """Multiply the last size of the largest array, wherever the same size occurs."""
    largest = largest_of(case)
    times = whole_root(elements / largest.size, largest.shape.count(largest.shape[-1]))
    return resized(case, lambda axis, n: n * times if n == largest.shape[-1] else n, times)


def sizes_of_images(case: Case, elements: int) -> Case | None:
    """Multiply the sizes of images and volumes, which are the sizes from the third dimension on."""
    largest = largest_of(case)
    if len(largest.shape) < 3:
        return None
    times = whole_root(elements / largest.size, len(largest.shape) - 2)
    return resized(
        case, lambda axis, n: n * times if largest.shape[axis : axis + 1] == (n,) and axis >= 2 else n, times
    )


def largest_alone(case: Case, elements: int) -> Case | None:
    """Multiply every size above 1 of the largest array, but not of the others: so few positions index a large array."""
    largest = largest_of(case)
    times = whole_root(elements / largest.size, sum(n > 1 for n in largest.shape))
    return resized_data(case, lambda axis, n: n * times if n > 1 else n, times, only=frozenset([largest]))


def one_size_of_data(axis: int, case: Case, elements: int) -> Case | None:
    """Multiply one size of the largest array, and equal sizes of other arrays (not of positions) along this axis."""
    largest = largest_of(case)
    if axis >= len(largest.shape):
        return None
    size, times = largest.shape[axis], whole_root(elements / largest.size, 1)
    alike = [a for a in case.arrays() if a.shape[axis : axis + 1] == (size,) and not is_position(a)]
    return resized_data(case, lambda i, n: n * times if i == axis else n, times, only=frozenset(alike))


def resized_data(case: Case, resize: Resize, times: int, *, only: frozenset[Array]) -> Case | None:
    """Resize the arrays ``only``; return None if the call has no positions (integer arrays), or ``only`` has one."""
    positions = any(is_position(a) and a.shape for a in case.arrays())
    return resized(case, resize, times, only) if positions and not any(map(is_position, only)) else None


def is_position(a: Array) -> bool:
    return a.dtype in ("int64", "int32")


def transposed(case: Case) -> Case | None:
    """Return the call with column-major arrays, or None if all have one dimension or share memory."""
    arrays = [a for a in case.arrays() if sum(n > 1 for n in a.shape) > 1]
    if not arrays or len({a.buffer for a in case.arrays()}) < len(case.arrays()):
        return None
    buffers, made = list(case.buffers), {}
    for a in arrays:
        held = np.ascontiguousarray(a.on(case.buffers).T)
        buffers[a.buffer] = held.reshape(-1).view(np.uint8)
        made[a] = Array(a.buffer, a.dtype, a.shape, held.strides[::-1])
    return swapped(replace(case, buffers=buffers), made)


WAYS = (sizes_of_images, every_size, first_size, last_size)
WAYS_OF_FEW = (largest_alone, partial(one_size_of_data, 1), partial(one_size_of_data, 0))


def largest_of(case: Case) -> Array:
    """Return the largest of the arrays that have dimensions."""
    return max((a for a in case.arrays() if a.shape), key=lambda a: a.size)


def whole_root(ratio: float, axes: int) -> int:
    """Return the number by which to multiply each of ``axes`` sizes so that the product grows by about ``ratio``.

    Numbers from 3 on are made odd, so that few sizes are even.
    """
    times = int(max(ratio, 1) ** (1 / max(axes, 1)))
    return times if times < 3 else times - 1 + times % 2


def resized(case: Case, resize: Resize, times: int, only: frozenset[Array] | None = None) -> Case | None:
    """Return the case with other shapes and with values similar to its own, or None if no array grows.

    With ``only``, the other arrays keep their shapes.
    """
    if times < 2:
        return None
    buffers, made = list(case.buffers), {}
    for a in only or case.arrays():
        shape = tuple(resize(axis, n) for axis, n in enumerate(a.shape))
        if prod(shape) > MOST:
            return None
        if shape != a.shape:
            values = a.on(case.buffers)
            matrices = is_of_matrices(case.op) and len(shape) > 1 and shape[-1] == shape[-2] != a.shape[-1]
            more = (
                well_conditioned(shape, values.dtype)
                if matrices and is_float(values.dtype)
                else values_like(values, shape)
            )
            if is_offsets(case, a):
                more.sort()
            buffers[a.buffer], made[a] = laid_out_like(a, more)
    if not made:
        return None
    sizes = {n: m for a, b in made.items() for n, m in zip(a.shape, b.shape, strict=True) if n != m}
    lists = lambda x: [sizes.get(n, n) for n in x] if is_shape(x, case) else x
    kwargs = {k: lists(a) for k, a in case.kwargs.items()}
    return swapped(replace(case, args=tuple(map(lists, case.args)), kwargs=kwargs, buffers=buffers), made)


def is_offsets(case: Case, a: Array) -> bool:
    """Return whether an array has the starts of bags, which are sorted: torch reads outside its arguments otherwise."""
    named = [*zip((arg.name for arg in all_schemas()[case.op].args), case.args), *case.kwargs.items()]
    return any(x is a and name == "offsets" for name, x in named)


def swapped(case: Case, arrays: dict[Array, Array]) -> Case:
    """Return the case with other arrays in place of these."""
    swap = lambda x: arrays.get(x, x) if isinstance(x, Array) else x
    kwargs = {k: map_tree(swap, a) for k, a in case.kwargs.items()}
    return replace(case, args=tuple(map_tree(swap, a) for a in case.args), kwargs=kwargs, digest="")


def is_shape(x: object, case: Case) -> bool:
    """Return whether an argument is a list of at least two sizes that are also the last sizes of an array."""
    if not isinstance(x, list) or len(x) < 2 or not all(type(n) is int for n in x):
        return False
    return any(list(a.shape[-len(x) :]) == x for a in case.arrays())


def values_like(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return random values within the range of an array's values; for integers and booleans, elements of the array.

    Infinities and NaNs are left out: otherwise sums over a million elements would all be infinite or NaN.
    """
    flat = values.reshape(-1)
    count = min(prod(shape), POOL)
    if is_float(values.dtype) or is_complex(values.dtype):
        flat = flat.astype(np.complex128 if is_complex(values.dtype) else np.float64)
        flat = flat[np.isfinite(flat)]
        if not flat.size:
            return np.ones(shape, values.dtype)
        low, high, part = np.random.choice(flat, count), np.random.choice(flat, count), np.random.rand(count)
        return np.resize((low + (high - low) * part).astype(values.dtype), shape)
    return np.resize(np.random.choice(flat, count).astype(values.dtype), shape)


def well_conditioned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return symmetric positive definite matrices with a condition number below 10."""
    a = np.random.randn(*shape) / shape[-1] ** 0.5
    return (a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])).astype(dtype)


def laid_out_like(a: Array, values: np.ndarray) -> tuple[np.ndarray, Array]:
    """Return memory that holds ``values`` in the same axis order and spacing as ``a``, and the new `Array`."""
    expanded = [n > 1 and s == 0 for n, s in zip(a.shape, a.strides, strict=True)]
    order = sorted(range(len(a.shape)), key=lambda i: -a.strides[i])
    size = DTYPES[a.dtype].itemsize
    step = (
        max(min((s for n, s in zip(a.shape, a.strides, strict=True) if n > 1 and s > 0), default=size) // size, 1)
        * size
    )
    strides = [0] * len(order)
    for axis in reversed(order):
        if not expanded[axis]:
            strides[axis] = step
            step *= values.shape[axis]
    new = Array(a.buffer, a.dtype, values.shape, tuple(strides))
    memory = np.zeros(step, np.uint8)
    held = values[tuple(slice(0, 1) if e else slice(None) for e in expanded)]
    window(memory, DTYPES[a.dtype], held.shape, new.strides, 0)[...] = held
    return memory, new
