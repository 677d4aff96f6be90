"""Calls of an engine, with an operator's arguments as plain Python values and references to its results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torchnp.engine.tensor.overload_info import OverloadInfo, written_of
from torchnp.engine.tensor.payloads import PayloadRef
from torchnp.engine.tensor.shape_inference import InferredResults, TensorSpec
from torchnp.rpc import wire


@dataclass(frozen=True, slots=True)
class Call:
    """One operator that an engine runs.

    Attributes
    ----------
    op : str
        Full name of the overload: ``"aten::add.Tensor"``.
    args, kwargs : tuple, dict
        The schema's arguments: payloads for tensors (or Python numbers), numbers, strings, lists, and NumPy dtypes.
        Devices, layouts and memory formats are strings.
    results : tuple of TensorSpec
        Metadata of each result that is a new tensor or a view: ``size``, ``stride``, ``offset`` and ``dtype`` (a torch
        dtype). None means that there is no tensor. Results in lists are listed individually.
    seed : int or None
        Seed of a random operator; the same state of torch's generator gives the same seed.
    """

    op: str
    args: tuple
    kwargs: dict[str, Any]
    results: tuple[TensorSpec | None, ...]
    seed: int | None = None


def plain_value(a: Any) -> Any:
    """Return a lowered argument as a plain Python value; a reference becomes its payload."""
    if isinstance(a, PayloadRef):
        return a.read()
    if isinstance(a, wire.Items):
        return [plain_value(x) for x in a.items]
    if isinstance(a, wire.Dtype):
        return wire.dtype_of(a.name)
    return complex(a.real, a.imag) if isinstance(a, wire.Complex) else a


def execute(
    engine: Any, plan: OverloadInfo, args: list, kwargs: dict[str, Any], outcome: InferredResults, key: int | None
) -> list[PayloadRef]:
    """Run an operator on an engine that has it; return references to the new results."""
    if engine.dtypes is not None:
        for spec in outcome.specs:
            if spec is not None:
                engine.check_dtype(spec.dtype, f"{plan.name} gives a result")
    named = {name: plain_value(a) for name, a in kwargs.items()}
    call = Call(engine.index[plan.name], tuple(map(plain_value, args)), named, tuple(outcome.specs), key)
    out = engine.run(call)
    if plan.written and not engine.strided:
        for target in written_of(plan, tuple(args), kwargs):
            for ref in target.items if isinstance(target, wire.Items) else (target,):
                if isinstance(ref, PayloadRef):
                    ref.write(ref.read())
    payloads = zip(_flat(plan, outcome, out), outcome.specs, strict=True)
    return [PayloadRef(payload, engine) for payload, spec in payloads if spec is not None]


def _flat(plan: OverloadInfo, outcome: InferredResults, out: Any) -> Iterator[Any]:
    """Yield the payloads of the results that are not written arguments; results in lists are yielded individually."""
    groups = iter(outcome.groups)
    for kind, value in zip(plan.returns, (out,) if plan.single else out or (), strict=True):
        if kind in ("new", "view"):
            yield from value if next(groups) >= 0 else (value,)
