"""Random calls of any overload, generated ("drawn") from its schema and compared with torch as samples are.

A seeded generator makes the random choices. hypothesis can draw the same calls and shrink them, but the harness does
not use its engine, because that repeats and varies earlier calls: half of a hundred calls were repeats.

In-place and ``out=`` forms get the calls of their functional form. The layout of the first argument, or the kind of
``out=``, changes from call to call.

Constraints on an operator's arguments are data in `opinfo_tests.generate.constraints`; everything else follows from the
types and names in the schema. torch's errors are compared, too, so a part of the calls is meant to be wrong. The share
of calls that torch accepts is measured: a strategy whose calls always raise tests nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from itertools import chain, islice
from itertools import count as numbers
from random import Random
from typing import Any

import numpy as np

from ..backends.torch_backend import TorchDevice
from ..case import Case, Named, Seeded, schemas
from ..schema_facts import bound, is_fragile
from .constraints import constraint as con
from .constraints.table import constraint_of
from .drawable import drawable, functional_form, is_trusting, looks_at_sizes, may_break
from .drawn_call import DrawnCall
from .mutations.layout_variants import enlarged, longest, relaid, retyped
from .mutations.special_values import KINDS as VALUES
from .mutations.special_values import planted, uneven
from .mutations.telling_values import beside_options, gridded, overflowing, proportional, telling
from .samples.extra.make_calls import SOURCE, own_reach
from .task import BROKEN, DRAWN, PLAIN, Task, number

# Layouts of the first array of in-place calls, used in turn: unchanged, or a kind of `layout_variants`.
TARGETS = ("", "first last", "first spread", "first expanded")
# Percentage of float arguments with a list of choices that get a value outside the list. `constraints.N` allows none.
EDGE = 6


def draw_argument(call: DrawnCall, a: Any) -> Any:
    """Return a random argument: by the operator's constraint, or else by the argument's name, or else by its type."""
    spec = call.row.args.get(a.name)
    if spec is None:
        spec = con.by_name(a)
    optional = a.type.endswith("?")
    if optional and not (call.row.args.get(a.name) and getattr(spec, "always", False)) and call.chance(40):
        return None
    if isinstance(spec, con.T):
        if a.type.startswith("Tensor[]") or a.type.startswith("Tensor?[]"):
            return [call.array(spec) for _ in range(call.integer(0 if call.wild else 1, 3))]
        return call.array(spec)
    if isinstance(spec, con.Ts):
        count = call.value(spec.count) if spec.count is not None else call.integer(1, 3)
        return [call.array(con.T(spec.shape, spec.dtype, spec.values, layout=spec.layout)) for _ in range(count)]
    if isinstance(spec, con.I):
        low, high = call.value(spec.low), call.value(spec.high)
        if call.wild and call.chance(30):
            low, high = low - 2, high + 3
        return call.integer(low, high)
    if isinstance(spec, con.L):  # sizes of windows, often equal in all dimensions
        count = call.value(spec.count)
        found = [call.integer(call.value(spec.low), call.value(spec.high)) for _ in range(count)]
        return [found[0]] * len(found) if found and call.chance(20) else found
    if isinstance(spec, con.N):
        return call.number(spec)
    if isinstance(spec, con.C):
        return edge(call, a, call.choose(spec.choices))
    if callable(spec):
        return spec(call)
    return by_type(call, a)


def edge(call: DrawnCall, a: Any, value: Any) -> Any:
    """Return ``value``; for some float arguments, occasionally 0, ``-value``, an infinity or NaN instead."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or a.type.removesuffix("?") not in ("float", "Scalar") or call.between.randint(0, 99) >= EDGE:
        return value
    return call.between.choice((0.0, -value, float("inf"), float("-inf"), float("nan")))


BY_TYPE: dict[str, Callable[[DrawnCall], Any]] = {
    "Scalar": DrawnCall.number,
    "Scalar[]": lambda call: [call.number() for _ in range(call.list_length())],
    "int": lambda call: call.integer(-1, 4),
    "SymInt": lambda call: call.integer(-1, 4),
    "bool": lambda call: call.choose([False, True]),
    "float": lambda call: call.choose([0.5, 1.0, 0.0, 2.0, 0.1, -1.5]),
    "float[]": lambda call: [call.choose([1.0, 2.0, 0.5]) for _ in range(call.integer(1, 3))],
    "ScalarType": lambda call: Named("dtype", call.choose(con.EVERY_DTYPE)),
    "Generator": lambda call: Seeded(call.integer(0, 9)),
    "Layout": lambda call: Named("layout", "strided"),
    "Device": lambda call: Named("device", "cpu"),
    "MemoryFormat": lambda call: Named(
        "memory_format", call.choose(["channels_last"] if call.wild else ["contiguous_format", "preserve_format"])
    ),
    "str": lambda call: call.choose(["none", "sum"]),
}


def by_type(call: DrawnCall, a: Any) -> Any:
    """Return a random argument that depends only on its type."""
    kind = a.type.removesuffix("?")
    first = call.shape is None
    if kind == "Tensor":
        return call.array(con.T("any" if first else "bcast"))
    if kind in ("Tensor[]", "Tensor?[]"):
        like = con.T("like" if not first else "any")
        made = [call.array(like)]
        return made + [call.array(con.T("like")) for _ in range(call.integer(0, 2))]
    if kind == "str" and a.name in con.WORDS:
        return call.choose(list(con.WORDS[a.name]))
    if kind in BY_TYPE:
        return BY_TYPE[kind](call)
    if kind.startswith("bool["):
        return [call.choose([True, False]) for _ in range(int(kind[5:-1]))]
    if kind.startswith(("int[", "SymInt[")):
        n = kind.partition("[")[2][:-1]
        count = int(n) if n else call.integer(0, 3)
        return [call.integer(0, 3) for _ in range(count)]
    raise TypeError(f"{call.op}: no strategy for {a.type} {a.name}")


@np.errstate(all="ignore")  # values that a dtype cannot represent overflow or wrap
def call_of(op: str, random: Random, between: Random, empty: bool = False, cube: int = 0) -> Case:
    """Return one random call of an overload."""
    call = DrawnCall(random, between, op, empty, cube)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    left_out = False
    for a in call.schema.args:
        if a.has_default and a.name not in call.row.always and not call.chance(55):
            left_out = left_out or not a.kwonly
            continue
        value = draw_argument(call, a)
        call.held[a.name] = value
        if a.kwonly or left_out:
            kwargs[a.name] = value
        else:
            args.append(value)
    case = Case(op, tuple(args), kwargs, call.buffers, DRAWN + op, "")
    if int(case.digest[:2], 16) % TUPLES == 0:  # torch accepts both
        listed = lambda v: tuple(v) if isinstance(v, list) else v
        case = replace(case, args=tuple(map(listed, args)), kwargs={k: listed(v) for k, v in kwargs.items()}, digest="")
    return case


TUPLES = 4  # one call in this many gets tuples instead of lists
EMPTIED = 12  # number of calls of an overload in which some sizes are 0


def emptied(op: str, start: int) -> Iterator[Case]:
    """Yield calls with some sizes of 0, for overloads that check their arguments and use no other overload's calls."""
    seen: set[str] = set()
    asked = drawn_as(op) == op and looks_at_sizes(op) and not is_fragile(op) and constraint_of(op).none
    for turn in range(EMPTIED if asked else 0):
        case = call_of(
            op, Random(f"{op} {start} {turn} empty"), Random(f"{op} {start} {turn} empty between"), empty=True
        )
        if case.digest not in seen and any(0 in a.shape for a in case.arrays()):
            seen.add(case.digest)
            yield case


CUBES = 8  # number of calls of an overload with all sizes equal


def cubes(op: str, start: int) -> Iterator[Case]:
    """Yield calls with equal sizes and distinct values: swapped dimensions or matrices then change the values."""
    for turn in range(CUBES):
        name = f"{op} {start} {turn} cube"
        case = call_of(op, Random(name), Random(f"{name} between"), cube=2 + turn % 2)
        if not constraint_of(op).dies(case):
            yield case


def told(op: str, count: str, start: int) -> Iterator[Case]:
    """Yield calls with values that expose wrong kernels, made from random calls of a functional overload."""
    if count.endswith(PLAIN) or drawn_as(op) != op or is_fragile(op):
        return
    execute = TorchDevice("cpu").execute
    square = [*cubes(op, start)]
    yield from square
    found = [*collected(op, number(count), start)][:AMONG]
    good = [c for c in found if all(0 not in a.shape for a in c.arrays()) and not execute(c).error]
    wide = next((c for c in good if max((a.on(c.buffers).size for a in c.arrays()), default=0) > 2), None)
    grid = [*gridded(wide, execute)] if wide is not None else []
    if wide is not None:
        yield from (*grid, *overflowing(wide, execute), *proportional(wide, execute))
    if looks_at_sizes(op):  # otherwise an option might make torch read out of bounds
        yield from beside_options(wide, execute) if wide is not None else ()
        yield from telling([*good, *square, *grid], execute)


AMONG = 20  # number of random calls that `told` starts from


REPEATED = 200  # number of consecutive repeats after which an overload has no more distinct calls


def distinct(op: str, start: int) -> Iterator[Case]:
    """Yield distinct random calls of an overload, determined by the seed ``start``."""
    seen: set[str] = set()
    repeated = 0
    for turn in numbers():
        case = call_of(op, Random(f"{op} {start} {turn}"), Random(f"{op} {start} {turn} between"))
        repeated = repeated + 1 if case.digest in seen else 0
        if repeated > REPEATED:
            return
        if not repeated:
            seen.add(case.digest)
            yield case


def draws(op: str, count: int, start: int = 0) -> list[Case]:
    """Return up to ``count`` distinct random calls of an overload, determined by the seed ``start``."""
    form = drawn_as(op)
    cases = collected(form, count, start)
    return list(cases) if form == op else transferred(cases, op)


def drawn_as(op: str) -> str:
    """Return the overload whose random calls an overload uses: for in-place and ``out=`` forms, the functional one."""
    return ((schemas()[op].mutates or schemas()[op].is_out) and functional_form(op)) or op


@lru_cache(maxsize=4)
def collected(op: str, count: int, start: int) -> tuple[Case, ...]:
    """Return random calls of a functional form; cached, because its in-place and ``out=`` forms come next."""
    return tuple(islice(distinct(op, start), count))


def transferred(cases: Iterable[Case], op: str) -> list[Case]:
    """Return calls as calls of an in-place or ``out=`` form; calls for which no ``out=`` can be made are left out."""
    from ..backends.torch_backend import thawed
    from .samples.recording import Recorder, transfer

    found: list[Case] = []
    recorder = Recorder(lambda _: True, found.append)
    recorder.source = DRAWN + op
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for turn, case in enumerate(cases):
            target = "" if schemas()[op].is_out else TARGETS[turn % len(TARGETS)]
            case = (target and relaid(case, target)) or case
            transfer(recorder, case.op, op, *thawed(case))
    return found


@cache
def drawn_families() -> dict[str, list[str]]:
    """Return the overloads that get random calls, by torchnp's families; ``none`` has those without a kernel."""
    import torchnp

    found: dict[str, list[str]] = {}
    for name in drawable(schemas()):
        found.setdefault(torchnp.table[name].family if name in torchnp.table else "none", []).append(name)
    return dict(sorted(found.items()))


# if shapes are free, one call in this many is repeated with many elements, and another with a longer dimension
MANY = 25
SOME = range(5, 40)  # lengths of this dimension
# Number of calls with new option values that are repeated with many elements, in a dtype that most kernels support.
OPTIONS = 24
MANY_OF = ("float32", "float64")
PLANTED = 10  # one call in this many is repeated with special values, and so are the calls with many elements


def options(case: Case) -> tuple:
    """Return a key for the code path that a kernel may take for a call.

    The key consists of which arguments are given, the booleans, strings and dtypes, whether ``dim`` is the last
    dimension or the one that `enlarged` repeats, and how many dimensions (up to two) are longer than 1.
    """
    given = bound(case)
    shape = next((a.shape for a in case.arrays() if a.shape), ())
    dim, n, wide = given.get("dim"), len(shape), min(sum(size > 1 for size in shape), 2)
    where = (dim % n == n - 1, dim % n == longest(case, n) % n) if isinstance(dim, int) and n else None
    return wide, where, *((k, v if isinstance(v, (bool, str, Named)) else v is None) for k, v in given.items())


def run_drawn(source: str, count: str, recorder: Any, start: int = 0) -> Iterator[None]:
    """Pass the random calls of a task and variants of them to the sink; yield after each call with its variants."""
    op, seen = source.removeprefix(DRAWN), set[Any]()
    for turn, case in enumerate(draws(op, number(count), start), 1):
        recorder.calls[op] += 1
        if recorder.wanted(op):
            case = replace(case, sample_dtype=count)
            recorder.sink(case)
            kind = VALUES[turn // PLANTED % len(VALUES)]
            many = enlarged(case) if turn % MANY == 0 else None
            if turn % MANY == MANY // 2:
                many = enlarged(case, SOME[turn % len(SOME)])
            others = [many, many and planted(many, kind), planted(case, kind) if turn % PLANTED == 0 else None]
            if number(count) >= MANY and len(seen) < OPTIONS and options(case)[0] and options(case) not in seen:
                many = enlarged(retyped(case, MANY_OF[len(seen) % len(MANY_OF)]) or case)
                if many is not None:
                    seen.add(options(case))
                    others += [many, uneven(many)]
            for other in others:
                if other is not None:
                    recorder.calls[op] += 1
                    recorder.sink(other)
        yield
    more = chain(told(op, count, start), emptied(op, start) if number(count) >= MANY else ())
    for case in more if recorder.wanted(op) else ():
        recorder.calls[op] += 1
        recorder.sink(replace(case, source=source, sample_dtype=count))
        yield


def plan(ops: Iterable[str], count: int, by_rule: bool = True) -> list[Task]:
    """Return the tasks that generate ``count`` calls of each overload, and the tasks with wrong arguments."""
    names = sorted(drawable(ops), key=lambda op: (drawn_as(op), op))
    said = str(count) if by_rule else f"{count}{PLAIN}"
    tasks = [
        Task(kind + op, said, drawn_as(op))
        for op in names
        for kind in (DRAWN, BROKEN)
        if kind == DRAWN or may_break(op)
    ]
    called = own_reach()[SOURCE]
    return tasks + [Task(BROKEN + op, said) for op in sorted(ops) if op in called and is_trusting(op)]
