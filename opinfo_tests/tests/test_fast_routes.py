"""Fast routes of elementwise rows give the same results as their full kernels on drawn calls; all fast paths do on
recorded calls."""

import warnings
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import torchnp
from opinfo_tests.case import DTYPES, Array, Named, map_tree
from opinfo_tests.generate.samples.opinfo import samples_of, supported
from opinfo_tests.generate.samples.opinfo_reach import reach
from opinfo_tests.generate.samples.recording import Recorder
from opinfo_tests.generate.task import Task
from opinfo_tests.tests.test_quick_tier import TWINS, alike, arrays, holds, numbers
from torchnp import dtypes as dt
from torchnp.core.fast_path import signature_of
from torchnp.core.registry import REGISTERED, wrap_kernel
from torchnp.layout.apply import settler

ROUTES = {n: REGISTERED[n] for n in sorted(REGISTERED) if getattr(torchnp.table.get(n), "direct", None)}
NUMBERS = numbers.filter(lambda x: x is not None) | st.sampled_from([3, -7, 2**40, 0.1])
EACH = 12  # recorded calls of each overload


def plain(name):
    """Return the kernel without its fast route, with its results in the same layout."""
    return wrap_kernel(
        ROUTES[name], torchnp.table[name].schema, settler(torchnp.table[name].schema) or (lambda out, *_: out)
    )


def outcome(kernel, args, named=None):
    """Return a call's result in comparable form: its bits, apart from nan's, or the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = kernel(*args, **(named or {}))
    except Exception as error:  # any exception is compared
        return type(error), str(error)
    assert type(out) is np.ndarray
    inexact = dt.is_inexact(out.dtype)
    values = np.where(np.isnan(out), np.ones((), out.dtype), out) if inexact else out
    strides = [s for n, s in zip(out.shape, out.strides, strict=True) if n > 1]
    return out.dtype, out.shape, strides, np.isnan(out).tobytes() if inexact else b"", values.tobytes()


def calls_of(name):
    tensors = [a.type for a in torchnp.table[name].schema.args]
    if len(tensors) == 1:
        return arrays().map(lambda x: [x])
    high = 300 if "polynomial" in name else np.inf  # each degree takes a step, also in torch
    if tensors[:2] == ["Tensor", "Tensor"]:
        return alike(2).filter(lambda pair: not (np.abs(pair[1]) > high).any())
    scalars = NUMBERS.filter(lambda n: not abs(n) > high)
    if tensors[0] == "Tensor":
        return st.tuples(arrays(), scalars).map(list)
    return st.tuples(scalars, arrays()).map(list)


def distinct():
    """Return the routes, without rows that are other names of the same route."""
    found = {(id(row), *(a.type for a in torchnp.table[name].schema.args)): name for name, row in ROUTES.items()}
    return sorted(found.values())


@pytest.mark.parametrize("name", distinct())
def test_a_fast_route_gives_what_the_body_gives(name):
    kernel, body = torchnp.table[name], plain(name)

    @settings(max_examples=40, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(calls_of(name))
    def judged(args):
        assert outcome(kernel, args) == outcome(body, args)

    judged()


# ---------------------------------------------------------------- recorded calls


STEPS = 10  # samples of each entry


def entry_of(name):
    """Return the OpInfo entry with samples of an overload: the one of the same name, or else the first that calls
    it."""
    sources = sorted(s for s, calls in reach().items() if s != "own" and name in calls and "float32" in supported(s))
    base = torchnp.table[name].schema.base
    return next((s for s in sources if s.rpartition(".")[2].replace(":", "") == base), next(iter(sources), None))


@cache
def recorded():
    """Return a few recorded calls of each overload that has a fast path."""
    found = {name: [] for name in (*TWINS, *ROUTES)}
    recorder = Recorder(lambda op: len(found.get(op, [0] * EACH)) < EACH, lambda case: found[case.op].append(case))
    for source in sorted({entry_of(name) for name in found} - {None}):
        recorder.transferred.clear()
        for step, _ in enumerate(samples_of(Task(source, "float32"), recorder, backward=True)):
            if step == STEPS:
                break
    return found


def arguments(case):
    """Return the arguments of a recorded call as a kernel takes them."""

    def leaf(x):
        if isinstance(x, Array):
            return x.on(case.buffers)
        return DTYPES.get(x.name, x.name) if isinstance(x, Named) else x

    return map_tree(leaf, list(case.args)), map_tree(leaf, case.kwargs)


def test_recorded_calls_take_no_other_way():
    """Most fast routes have recorded calls, most fast paths accept some of theirs, and all results equal the full
    kernel's."""
    calls, took = recorded(), 0
    assert sum(map(bool, calls.values())) > 0.65 * len(calls)
    for name, row in TWINS.items():
        taken = [holds(name, *arguments(case)) for case in calls[name] if fits(row, case)]
        took += any(taken)
    assert took > 0.7 * len(TWINS)
    for name in ROUTES:
        kernel, body = torchnp.table[name], plain(name)
        for case in calls[name]:
            args, named = arguments(case)
            assert outcome(kernel, args, named) == outcome(body, args, named), case.describe()


def fits(row, case):
    """Return whether the table tries the fast path: its signature accepts this number of arguments and these names."""
    return signature_of(row.quick.function, torchnp.table[case.op].schema).takes(len(case.args), case.kwargs)
