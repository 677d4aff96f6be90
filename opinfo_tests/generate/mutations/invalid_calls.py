"""Mostly invalid calls: a valid call with one or two arguments changed in ways that most operators reject."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from random import Random
from typing import Any

import numpy as np

from ...case import NAMES, Array, Case, Named, leaves, map_tree, rebuilt, schemas, whole
from ..constraints.constraint import EVERY_DTYPE, NEVER
from ..constraints.table import constraint_of
from ..drawable import looks_at_sizes, takes_any_shape
from ..strategies import draws
from ..task import BROKEN, PLAIN
from .default_dtypes import by_default
from .layout_variants import cast, relaid, retyped
from .pairwise_changes import combined, crossed
from .promotion_cases import paired
from .special_values import KINDS as VALUES
from .special_values import planted
from .values_near_arguments import levelled

NUMBERS = (-1, -7, 0, 9, 100)
INDICES = (-1, -100, 100)  # out of range, or counted from the end
OTHER_DTYPES = tuple(dict.fromkeys(["float64", "float16", "complex128", *EVERY_DTYPE]))
FAR = (100, -100, -7)
# Lists with two wrong entries, to see which of them the error names.
UNLIKE: tuple[list[int], ...] = (
    [0, 0, 100],
    [0, -100, 100],
    [-1, -1, 100],
    [-1, -7],
    [-7, -1],
    [2, -1, -1],
    [1, 0, 1, 2],
)
# Numbers that some dtypes cannot represent: negative, fractional, complex, or too large for float16, float32 or 64
# bits.
SCALARS = (-1.0, 1.5, 3 + 4j, True, 0, 7, 1e5, 1e39, -(2**63), float("nan"))
FLOATS = (-1.0, 1.5, float("nan"), 1e5, 1e39)
# Values for arguments that the valid call omits.
DTYPE_CHOICES = tuple(Named("dtype", name) for name in ("bool", "int64", "float32", "complex64", "float16"))
DEVICES = (Named("device", "cpu"), Named("device", "cpu:0"))  # "cpu" has no device number, "cpu:0" has one
OF_A_LENGTH = re.compile(r"\bint\[\d+\]")
LISTS: tuple[list[int], ...] = ([], [0], [-1, 0], [1, 2, 3])
GIVEN: dict[str, tuple] = {
    "int?": NUMBERS, "SymInt?": NUMBERS, "float?": FLOATS, "bool?": (False, True), "Scalar?": SCALARS,
    "ScalarType?": DTYPE_CHOICES, "Device?": DEVICES, "Layout?": (Named("layout", "strided"),), "int[]?": LISTS,
    "int[1]?": LISTS + UNLIKE, "SymInt[]?": LISTS, "SymInt[1]?": LISTS + UNLIKE, "float[]?": ([], [1.0], [2.0, 0.5]), "str?": ("bogus",),
    "MemoryFormat?": tuple(Named("memory_format", n) for n in ("contiguous_format", "preserve_format", "channels_last")),
}  # fmt: skip
PLACES = ("all last", "all sliced", "first swapped", "all spread", "all mixed", "second last", "first last")
AMONG = 20  # number of random calls of an overload that are changed
SOUGHT = 200  # number of random calls that are searched for optional tensors that the `AMONG` calls lack
FARTHEST = 100  # beyond this value of a number, such as a degree or a power, rounding changes all results
TWICE = 24  # number of calls with two changes, for each call
LACKING = 3  # number of dtypes that torch does not implement, for each overload
MORE_WRONG = 16  # number of calls with one more fault, for each of the `LACKING` dtypes
NO_CODE = "not implemented for"
BASES = 2  # number of valid calls of each overload whose arguments are changed


def run_broken(source: str, count: str, recorder: Any, start: int = 0) -> Iterator[None]:
    """Pass changed variants of the first valid calls to the sink.

    Their number does not depend on ``count``, the number of random calls. Under pytest (if ``count`` ends with
    `PLAIN`), only the first valid call is changed, and only a third of the calls with several changes are used.
    """
    from ...backends.torch_backend import TorchDevice

    op, oracle = source.removeprefix(BROKEN), TorchDevice("cpu")
    few = count.endswith(PLAIN)
    if not recorder.wanted(op):
        return
    kept: list[Case] = []
    seen = set[int | str]()
    optional = {a.name for a in schemas()[op].args if a.type == "Tensor?"}
    for turn, case in enumerate(draws(op, SOUGHT if optional else AMONG, start)):
        if turn >= AMONG and optional <= names_of(op, seen):
            break
        usual = len(kept) < BASES
        if not usual and not arrays_of(case) - seen:
            continue  # it has no tensor argument that the calls so far lack
        if all(0 not in a.shape for a in case.arrays()) and not oracle.execute(case).error:
            new, seen = arrays_of(case) - seen, seen | arrays_of(case)
            if usual:
                kept.append(case)
            else:
                only = broken(replace(case, source=source, sample_dtype=count), new)
                yield from offered(chain(*only.values()), recorder)
    for case in kept[:1] if few else kept:
        asked = replace(case, source=source, sample_dtype=count)
        once = broken(asked)
        more: list[Case] = []
        twice: list[Case] = []
        if not schemas()[op].is_out:
            twice += broken_twice(once, Random(f"{op} {start} twice"), TWICE // 3 if few else TWICE)
            more += crossed(once, Random(f"{op} {start} crossed"), oracle.execute) if case is kept[0] else ()
            more += combined(once, Random(f"{op} {start} combined"), oracle.execute) if case is kept[0] else ()
            more += elsewhere(once, oracle.execute)
            more += by_default(asked, oracle.execute)
            more += recast(asked)
            more += lacking(asked, Random(f"{op} {start} lacking"), oracle.execute) if case is kept[0] else ()
            more += levelled(asked) if case is kept[0] else ()
        more += paired(asked, oracle.execute) if case is kept[0] and not few else ()
        more = more[::3] if few else more
        yield from offered([c for c in chain(*once.values(), twice, more) if not constraint_of(op).dies(c)], recorder)


def lacking(case: Case, random: Random, execute: Callable[[Case], Any]) -> Iterator[Case]:
    """Yield the call with dtypes that torch does not implement and one more fault, to see which error comes first."""
    count = 0
    for name in OTHER_DTYPES if takes_any_shape(case.op) else ():
        other = retyped(case, name)
        if other is None or count == LACKING:
            return
        if error := execute(other).error:
            if NO_CODE not in error[1]:
                continue
            count += 1
            calls = [one for one in chain(*broken(other).values()) if one.dtypes() == other.dtypes()]
            yield from random.sample(calls, min(MORE_WRONG, len(calls)))


def offered(calls: Iterable[Case], recorder: Any) -> Iterator[None]:
    for case in calls:
        recorder.calls[case.op] += 1
        recorder.sink(case)
        yield


def arrays_of(case: Case) -> set[int | str]:
    """Return the positions or names of the arguments that are tensors or lists of tensors."""
    given: list[tuple[int | str, Any]] = [*enumerate(case.args), *case.kwargs.items()]
    return {place for place, value in given if any(isinstance(x, Array) for x in leaves(value))}


def names_of(op: str, places: Iterable[int | str]) -> set[str]:
    """Return the names of an overload's arguments, which are given by position or name."""
    return {schemas()[op].args[place].name if isinstance(place, int) else place for place in places}


def broken_twice(once: dict[int | str, list[Case]], random: Random, count: int) -> Iterator[Case]:
    """Yield some of the calls with one more change, to see which error comes first."""
    for _ in range(count if once else 0):
        case = random.choice(random.choice(list(once.values())))
        if more := changes(case):
            yield random.choice(random.choice(list(more.values())))()


def broken(case: Case, places: Collection[int | str] | None = None, sized: bool = False) -> dict[int | str, list[Case]]:
    """Return the calls with one argument changed, by the position or name of the argument.

    With ``places``, only these arguments are changed. Sizes and numbers are changed only if torch checks them, or if
    ``sized`` is true.
    """
    return {place: [made() for made in calls] for place, calls in changes(case, places, sized).items()}


def changes(
    case: Case, places: Collection[int | str] | None = None, sized: bool = False
) -> dict[int | str, list[Callable[[], Case]]]:
    """Return the calls of `broken` as functions that make them, because most of them are not used."""
    names = [a.name for a in schemas()[case.op].args]
    dies = constraint_of(case.op).dies
    seen = {case.digest}
    found: dict[int | str, list[Callable[[], Case]]] = {}
    left_out = {a.name: a.default for a in schemas()[case.op].args[len(case.args) :] if a.has_default} | case.kwargs
    for place, value in [*enumerate(case.args), *left_out.items()]:
        if places is not None and place not in places:
            continue
        a = schemas()[case.op].args[place if isinstance(place, int) else names.index(place)]
        if schemas()[case.op].is_out and not a.is_out:
            continue  # the calls of the functional form have these changes
        buffers = list(case.buffers)
        own = key_of(value, buffers, 0)
        calls: dict[str, Callable[[], Case]] = {}
        for other in others(value, a, case, buffers, sized):
            key = key_of(other, buffers, len(case.buffers))
            made = partial(changed, case, place, other, buffers)
            if key in calls or (dies is not NEVER and dies(made())):
                continue
            if key_of(other, buffers, 0) == own:  # the same values, maybe in other memory
                if made().digest in seen:
                    continue
                seen.add(made().digest)
            calls[key] = made
        found |= {place: list(calls.values())} if calls else {}
    return found


def changed(case: Case, place: int | str, other: Any, buffers: list[np.ndarray]) -> Case:
    args = tuple(other if i == place else v for i, v in enumerate(case.args))
    kwargs = case.kwargs if isinstance(place, int) else {**case.kwargs, place: other}
    return replace(rebuilt(case, args, kwargs, buffers), digest="")


def key_of(value: Any, buffers: list[np.ndarray], own: int) -> str:
    """Return a key that identifies an argument's value; new arrays (in buffers from ``own`` on) by their contents."""

    def one(x: Any) -> Any:
        new = isinstance(x, Array) and x.buffer >= own
        return (x.dtype, x.shape, x.on(buffers).tobytes()) if new else x

    return repr(map_tree(one, value))


def elsewhere(once: dict[int | str, list[Case]], execute: Callable[[Case], Any]) -> Iterator[Case]:
    """Yield accepted calls with a changed number or option, with other layouts and with special values, in turn."""
    turn = 0
    for place, calls in once.items():
        for case in calls:
            if place in arrays_of(case):
                continue
            if not execute(case).error:
                value = case.args[place] if isinstance(place, int) else case.kwargs[place]
                far = not takes_any_shape(case.op) or (isinstance(value, (int, float)) and abs(value) > FARTHEST)
                found = (
                    relaid(case, PLACES[turn % len(PLACES)]),
                    None if far else planted(case, VALUES[turn % len(VALUES)]),
                )
                yield from filter(None, found)
            turn += 1


def recast(case: Case) -> Iterator[Case]:
    """Yield the call with the first array's dtype replaced by each other dtype, half of them in another layout."""
    if not retyped(case, "float32"):
        return
    first = case.arrays()[0].dtype
    for turn, name in enumerate(name for name in OTHER_DTYPES if name != first):
        if other := retyped(case, name):
            yield (turn % 2 and relaid(other, "all last")) or other


def others(value: Any, a: Any, case: Case, buffers: list[np.ndarray], sized: bool) -> Iterator[Any]:
    """Yield values that replace an argument; new memory is added to ``buffers``."""
    row = constraint_of(case.op)
    sized = sized or (a.name not in row.unchecked and looks_at_sizes(case.op))
    if sized and value is not None and a.type.endswith("?"):
        yield None
    if isinstance(value, Array):
        x = value.on(case.buffers)
        for other in [*arrays_like(x, sized), *(indices_like(x, case) if sized and row.wild_values else ())]:
            yield added(other, buffers)
    elif isinstance(value, list) and value and isinstance(value[0], Array):
        yield from ([], value[:-1], [*value, value[0]]) if sized else ()
        for x in arrays_like(value[0].on(case.buffers), sized):
            yield [added(x, buffers), *value[1:]]
        if len(value) > 1 and isinstance(value[-1], Array):
            for x in arrays_like(value[-1].on(case.buffers), sized):
                yield [*value[:-1], added(x, buffers)]
    elif sized and value is None and a.type == "Tensor?" and case.arrays():
        yield added(case.arrays()[0].on(case.buffers), buffers)
    elif sized:
        yield from GIVEN.get(a.type, ()) if value is None else plain(value, a, case)


def plain(value: Any, a: Any, case: Case) -> Iterator[Any]:
    """Yield values that replace a number, a list of integers, a string, a dtype or a device."""
    if isinstance(value, list) and all(type(v) is int for v in value) and "int" in a.type.lower():
        yield from ([], [*value, 1], value[1:], [-1] * len(value), [0] * len(value), [7] * len(value), [0] * 2)
        yield from ([*value, *value[:1]], *([*value[:-1], n] for n in (*FAR, *edges(case))), *UNLIKE)
        # the same dimension, as a negative number
        yield from ([*value, n - rank] for n in value[:1] for rank in ranks(case))
        yield from ([*x.shape] for x in case.arrays()[:1])
        # torch accepts a single number for int[n], but not for SymInt[n]
        yield from (0, 2) if OF_A_LENGTH.search(a.type) else ()
    elif type(value) is int and "int" in a.type.lower():
        yield from (n for n in dict.fromkeys([*NUMBERS, *edges(case)]) if n != value)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)) and not a.type.startswith("ScalarType"):
        # Some operators return uninitialized values for NaN; a polynomial of degree 1e5 takes too long.
        tame = constraint_of(case.op).values != "any"
        numbers = SCALARS if a.type.startswith("Scalar") else FLOATS
        yield from (v for v in numbers if not tame or (v == v and v != 1e5))
        yield from (v for v in (*case.args, *case.kwargs.values()) if type(v) is type(value) and v != value)
    elif isinstance(value, str) and a.type.startswith("str"):
        yield "bogus"
    elif isinstance(value, Named) and value.kind in ("dtype", "device"):
        yield from (other for other in (*DTYPE_CHOICES, *DEVICES) if other.kind == value.kind and other != value)


def ranks(case: Case) -> list[int]:
    """Return the rank of the first array that has dimensions, as a list of at most one element."""
    return [len(a.shape) for a in case.arrays() if a.shape][:1]


def edges(case: Case) -> list[int]:
    """Return numbers near the sizes and the rank of the first array that has dimensions, with either sign."""
    shape = next((a.shape for a in case.arrays() if a.shape), ())
    return list(dict.fromkeys(m for n in (*shape, len(shape)) for m in (n - 1, n, n + 1, -n, -n - 1))) if shape else []


def added(x: np.ndarray, buffers: list[np.ndarray]) -> Array:
    made, window = whole(x, len(buffers))
    buffers.append(made)
    return replace(
        window, strides=np.empty([max(n, 1) for n in x.shape], x.dtype).strides
    )  # torch's strides, also for empty arrays


def arrays_like(x: np.ndarray, sized: bool) -> Iterator[np.ndarray]:
    """Yield arrays with the values of ``x`` in other dtypes and, if ``sized``, in other shapes."""
    if sized:
        yield np.stack([x, x])
    if sized:  # size 1 in one dimension, which may broadcast
        yield from (np.take(x, [0], d) for d in range(x.ndim) if x.shape[d] > 1)
    if sized and x.ndim and x.size:
        yield np.take(x, 0, 0)
        yield from (np.concatenate([x, np.take(x, [0], d)], d) for d in range(x.ndim))
        yield x[:0]
        yield np.resize(x, ())
    if sized and x.ndim > 1:
        yield x[:, :0]
        yield x.reshape(-1)
    if sized:  # the same elements in another shape
        yield x[..., None]
    if sized and x.size == 1 and x.ndim:
        yield x.reshape(())
    if sized:  # wrong in shape and dtype
        yield cast(np.stack([x, x]), "complex64" if NAMES[x.dtype] != "complex64" else "bool")
        yield cast(x.reshape(-1)[:0], "bool" if NAMES[x.dtype] != "bool" else "float64")
    yield from (cast(x, name) for name in OTHER_DTYPES if name != NAMES[x.dtype])


def indices_like(x: np.ndarray, case: Case) -> Iterator[np.ndarray]:
    """Yield index arrays with faults.

    The last element is just or far out of range, or negative; or two elements are out of range at different ends, to
    see which one the error names; or the last two elements of each row are equal.
    """
    for n in dict.fromkeys([*INDICES, *edges(case)]) if x.dtype in (np.int64, np.int32) else ():
        made = x.copy()
        made.reshape(-1)[-1:] = n
        yield made
    if x.size > 1 and x.dtype in (np.int64, np.int32):
        made = x.copy()
        made.reshape(-1)[:: x.size - 1] = 100, -100
        yield made
    if x.ndim and x.shape[-1] > 1 and x.dtype in (np.int64, np.int32):
        made = x.copy()
        made[..., -1] = made[..., -2]
        yield made
