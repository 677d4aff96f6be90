"""Samples of a task: torch's OpInfo entries (forward, backward, in place, direct), or those of another source."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

from torchnp.core.libraries import PREFIXES

from ... import namespaces
from ...backends.torch_backend import DTYPE_NAMES, TORCH_DTYPES
from ...case import ORDER
from ..task import BROKEN, GIVEN, Task, reseed
from . import model_calls, plugin_samples
from .recording import Recorder, out_like

ERRORS = "errors"  # takes the place of a dtype, for the inputs that torch must refuse
# Dtypes that are enough to find which overloads an entry calls.
PROBE_DTYPES = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")


@cache
def opinfos() -> dict[str, Any]:
    """Return torch's entries by a stable name, such as ``add`` or ``var.unbiased``."""
    from torch.testing._internal.common_methods_invocations import op_db

    out: dict[str, Any] = {}
    for op in op_db:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        while name in out:
            name += "'"
        out[name] = op
    return out | {f.name: f for f in foreach_entries()} | reference_entries()


@dataclass(frozen=True)
class Foreach:
    """Adapter for an entry of torch's foreach databases; its samples have lists of three tensors."""

    info: Any
    supports_autograd: bool = False
    inplace_variant: None = None
    error_inputs_func: None = None
    aliases: tuple = ()

    @property
    def name(self) -> str:
        return self.info.name

    aten_name = name

    def op(self, *args: Any, **kwargs: Any) -> Any:
        return self.info.method_variant(*args, **kwargs) if self.info.method_variant else None

    def supported_dtypes(self, device: str) -> Any:
        return self.info.supported_dtypes(device)

    def sample_inputs(self, device: str, dtype: torch.dtype, requires_grad: bool = False) -> Iterator[Any]:
        more = {"num_input_tensors": [3], "allow_higher_dtype_scalars": True}
        yield from self.info.sample_inputs(device, dtype, requires_grad=False, **more)


MANY = 1 << 16  # elements: second derivatives of larger samples take hours and make no new calls
REFERENCE_SAMPLES = 16  # samples of each reference and dtype, which make almost the same calls


@dataclass(frozen=True)
class Reference:
    """Adapter for an entry of torch's reference database, whose functions are the only samples that call prims."""

    info: Any
    name: str
    supports_autograd: bool = False
    inplace_variant: None = None
    error_inputs_func: None = None
    aten_name: str = ""
    aliases: tuple = ()

    def op(self, *args: Any, **kwargs: Any) -> Any:
        return self.info.op(*args, **kwargs)

    def supported_dtypes(self, device: str) -> Any:
        return self.info.supported_dtypes(device)

    def sample_inputs(self, device: str, dtype: torch.dtype, requires_grad: bool = False) -> Iterator[Any]:
        yield from islice(self.info.sample_inputs(device, dtype), REFERENCE_SAMPLES)


def reference_entries() -> dict[str, Reference]:
    from torch.testing._internal.common_methods_invocations import python_ref_db

    found: dict[str, Reference] = {}
    for info in python_ref_db:
        name = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
        while name in found:
            name += "'"
        found[name] = Reference(info, name)
    return found


def foreach_entries() -> list[Foreach]:
    from torch.testing._internal import common_methods_invocations as c

    databases = (c.foreach_unary_op_db, c.foreach_binary_op_db, c.foreach_pointwise_op_db, c.foreach_reduce_op_db,
                 c.foreach_other_op_db)  # fmt: skip
    return [Foreach(info) for database in databases for info in database]


def registered() -> frozenset[str]:
    """Return every overload of aten, prims and the loaded libraries that torch registers."""
    return _registered(namespaces.met())


@cache
def _registered(spaces: tuple[str, ...]) -> frozenset[str]:
    import torch._refs

    names = torch._C._dispatch_get_all_op_names()
    return frozenset(n for n in names if n.startswith((*PREFIXES, *(f"{space}::" for space in spaces))))


def supported(source: str) -> set[str]:
    """Return the names of the dtypes that an entry supports on the CPU."""
    if source == "own":
        from .extra.make_calls import own_dtypes

        return own_dtypes()
    if source == model_calls.SOURCE:
        return set(model_calls.DTYPES)
    op = opinfos()[source]
    found = {DTYPE_NAMES[d] for d in op.supported_dtypes("cpu") if d in DTYPE_NAMES}
    return found | {ERRORS} if op.error_inputs_func is not None else found


def dtypes_of(text: str) -> list[str]:
    """Return the dtypes in a comma separated list; ``all`` means every dtype and the error inputs."""
    names = [*sorted(set(DTYPE_NAMES.values())), ERRORS]
    chosen = names if text == "all" else text.split(",")
    unknown = set(chosen) - set(names)
    if unknown:
        raise SystemExit(f"opinfo_tests: no dtype {', '.join(sorted(unknown))}: {', '.join(names)}")
    return chosen


def detached(x: Any) -> Any:
    return tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, x)


def samples_of(
    task: Task, recorder: Recorder, *, seed: int = 0, backward: bool = True, order: int = ORDER, few: int = 0
) -> Iterator[None]:
    """Run the samples of a task under ``recorder``; yield after each.

    With ``few``, an entry's samples are thinned out: the first ``few`` all run, of the next ``few`` every second, then
    every third, and so on.
    """
    if task.source == "own":
        from .extra.make_calls import run_own

        yield from run_own(task.dtype, recorder)
        return
    if task.source == model_calls.SOURCE:
        yield from model_calls.run_models(task.dtype, recorder)
        return
    if task.source.startswith(GIVEN):
        yield from plugin_samples.run_given(task.source, task.dtype, recorder)
        return
    if task.is_drawn:
        from ..drawable import is_trusting
        from ..mutations.invalid_calls import run_broken
        from ..mutations.subprocess_oracle import run_asked
        from ..strategies import run_drawn

        recorder.source, recorder.sample_dtype = task.source, task.dtype
        run = run_drawn
        if task.source.startswith(BROKEN):
            run = run_asked if is_trusting(task.source.removeprefix(BROKEN)) else run_broken
        yield from run(task.source, task.dtype, recorder, seed)
        return
    op = opinfos()[task.source]
    with no_test_around():
        yield from (
            errors_of(task, op, recorder)
            if task.dtype == ERRORS
            else entry_samples(task, op, recorder, seed, backward, order, few)
        )


@contextmanager
def no_test_around() -> Iterator[None]:
    """Let torch generate samples as if no unittest were running and no other device existed.

    Searching the stack for a test takes a fifth of a run, and so do the stack traces that torch records each time it is
    seeded, for devices that are initialized later.
    """
    from torch.testing._internal import common_utils
    from torch.testing._internal.opinfo import core

    with (
        patch.object(common_utils, "extract_test_fn", lambda: None),
        patch.object(core, "extract_test_fn", lambda: None),
        patch.object(common_utils, "set_rng_seed", seeded),
    ):
        yield


def seeded(seed: int | None = None) -> None:
    """Seed the CPU generators that torch's samples use, as torch's tests do."""
    from torch.testing._internal.common_utils import SEED

    seed = SEED if seed is None else seed
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def entry_samples(
    task: Task, op: Any, recorder: Recorder, seed: int, backward: bool, order: int, few: int = 0
) -> Iterator[None]:
    """Run an entry's samples: as calls of its aten operator, in place, and with its own function and gradients."""
    dt = TORCH_DTYPES[task.dtype]
    recorder.source, recorder.sample_dtype = task.source, task.dtype
    grads = backward and op.supports_autograd and dt in op.supported_backward_dtypes("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reseed(f"{task.source}{task.dtype}{seed}")
        for turn, sample in enumerate(chain(op.sample_inputs("cpu", dt, requires_grad=grads), extremes(op, dt))):
            if few and turn % (turn // few + 1):
                continue
            state = torch.get_rng_state()
            run_direct(op, sample, recorder)
            run_inplace(op, sample, recorder, turn)
            run_sample(op, sample, recorder, order if grads else 0)
            yield
            torch.set_rng_state(state)


def errors_of(task: Task, op: Any, recorder: Recorder) -> Iterator[None]:
    """Run an entry's error inputs; calls that raise errors are recorded like any other."""
    recorder.source, recorder.sample_dtype = task.source, ERRORS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reseed(f"{task.source}{ERRORS}")
        for error in op.error_inputs("cpu"):
            state = torch.get_rng_state()
            run_direct(op, error.sample_input, recorder)
            run_sample(op, error.sample_input, recorder, 0)
            yield
            torch.set_rng_state(state)


def run_task(task: Task, recorder: Recorder) -> int:
    """Run all samples of a task; return their number."""
    return sum(1 for _ in samples_of(task, recorder))


def extremes(op: Any, dt: torch.dtype) -> Iterator[Any]:
    """Yield torch's own samples of NaN, infinities and large values, which sample_inputs does not have.

    There are none for complex dtypes, which torch's tests skip for most operators, and for polynomials, whose large
    orders take too long.
    """
    from torch.testing._internal.opinfo import core

    kinds = {core.UnaryUfuncInfo: "unary", core.BinaryUfuncInfo: "binary"}
    kind = next((k for info, k in kinds.items() if isinstance(op, info)), None)
    if kind is None or not dt.is_floating_point or "polynomial" in op.name:
        return
    for what in ("extremal_value", "large_value"):
        draw = getattr(core, f"generate_elementwise_{kind}_{what}_tensors")
        yield from draw(op, device="cpu", dtype=dt)
    zeros = torch.tensor([0.0, -0.0, 1.0, -1.0], dtype=dt)
    yield core.SampleInput(zeros) if kind == "unary" else core.SampleInput(zeros, args=(zeros.flip(0),))


def run_sample(op: Any, sample: Any, recorder: Recorder, order: int) -> None:
    """Call the entry's own function, then its gradient, and for ``order`` 2 the gradient of the gradient."""
    try:
        with recorder:
            out = op.op(sample.input, *sample.args, **sample.kwargs)
    except Exception:
        return
    if not order:
        return
    try:
        out = sample.output_process_fn_grad(out)
        inputs = [t for t in tree_leaves((sample.input, sample.args, sample.kwargs)) if wants_grad(t)]
        outs = [t for t in tree_leaves(out) if wants_grad(t)]
        if not outs or not inputs:
            return
        seeds = [torch.randn_like(t) for t in outs]
        with recorder:
            torch.autograd.grad(outs, inputs, seeds, allow_unused=True, retain_graph=order > 1)
        if order == 1:
            return
        if sum(t.numel() for t in (*inputs, *outs)) > MANY:
            recorder.left_out[f"the second derivative of a sample of more than {MANY:,} elements"] += 1
            return
        with recorder:
            # Compute the gradient again, because with create_graph many gradients use other operators. For example,
            # silu's does not use silu_backward.
            out = torch.autograd.grad(outs, inputs, seeds, allow_unused=True, create_graph=True)
            outs = [t for t in out if wants_grad(t)]
            if outs:
                torch.autograd.grad(outs, inputs, [torch.randn_like(t) for t in outs], allow_unused=True)
    except Exception:
        return


def wants_grad(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and t.requires_grad


def packets(op: Any) -> Iterator[str]:
    """Yield possible names of an entry's aten operator, the most likely first."""
    name = op.aten_name
    if isinstance(op, Reference):
        return
    for candidate in (name, name.replace(".", "_"), name.rpartition(".")[2], op.name.replace(".", "_")):
        if candidate.isidentifier() and hasattr(torch.ops.aten, candidate):
            yield candidate


def resolve(names: Iterable[str], args: tuple, kwargs: dict[str, Any]) -> str | None:
    """Return the overload to which torch resolves the arguments, for the first operator that accepts them, or None."""
    for packet in names:
        if not hasattr(torch.ops.aten, packet):
            continue
        try:
            overload = torch._C._jit_resolve_packet(f"aten::{packet}", *args, **kwargs)
        except RuntimeError:
            continue
        name = f"aten::{packet}" + (f".{overload}" if overload not in ("", "default") else "")
        if name in registered():
            return name
    return None


def run_direct(op: Any, sample: Any, recorder: Recorder) -> None:
    """Record the sample as a call of the entry's aten operator; composite operators do not reach the recorder."""
    args = tuple(detached((sample.input, *sample.args)))
    kwargs = detached(sample.kwargs)
    for names in (packets(op), *([a.name.replace(".", "_")] for a in op.aliases)):
        name = resolve(names, args, kwargs)
        if name is not None:
            recorder.see(name, args, kwargs)


def run_inplace(op: Any, sample: Any, recorder: Recorder, turn: int = 0) -> None:
    """Call the entry's in-place form on a copy of the sample, which by ``turn`` is contiguous, strided or expanded."""
    fn = op.inplace_variant
    if fn is None or not isinstance(sample.input, torch.Tensor) or sample.broadcasts_input:
        return
    args, kwargs = detached(sample.args), detached(sample.kwargs)
    x = sample.input.detach()
    if turn % 4 == 1:
        target = out_like(x, "stepped").copy_(x)
    elif turn % 8 == 2 and x.ndim:
        target = x[:1].clone().expand(x.shape)
    else:
        target = x.clone()
    try:
        with recorder:
            fn(target, *args, **kwargs)
    except Exception:
        return
