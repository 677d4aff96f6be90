"""Properties of overloads that the client needs to send them; they are read from each schema once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from torchnp.core.code_location import location
from torchnp.core.errors import MissingKernelError
from torchnp.engine.tensor.call_sites import caller
from torchnp.interop._private import OpOverload, is_composite, schema_of
from torchnp.rpc import wire

# Fixed-shape alternatives to ops whose result shape depends on values.
FIXED_SHAPE = {
    "nonzero": "torch.where(mask, a, b), or a mask multiplied in",
    "nonzero_numpy": "torch.where(mask, a, b)",
    "argwhere": "torch.where(mask, a, b)",
    "masked_select": "torch.where(mask, x, 0), or x * mask, which keep the shape",
    "index": "torch.where(mask, x, 0), or x * mask, which keep the shape",
    "unique": "torch.sort, then compare neighbours: x[1:] != x[:-1]",
    "linalg_lstsq": "torch.linalg.pinv(a) @ b, or for a of full rank torch.linalg.solve(a.mT @ a, a.mT @ b)",
    "bincount": "torch.zeros_like(counts).scatter_add_(0, x, ones), with as many counts as there can be values",
    "_ctc_loss": "lengths that are plain tensors or lists of numbers",
    "repeat_interleave": "x.repeat_interleave(n) with a number, or x[index] with an index of known length",
    "slice": "x[i + torch.arange(n)] for n entries from i on, or torch.where(torch.arange(len(x)) < i, x, 0)",
}


def alternative(base: str) -> str:
    """Return the fixed-shape alternative to an op whose result shape depends on values."""
    if "unique" in base:
        base = "unique"
    return FIXED_SHAPE.get(base, "torch.where, which keeps the shape")


# TorchScript's spelling of Scalar, Scalar?, Scalar[], float and float?. float[] is left out, because it may scale
# sizes. A number that is passed for a Tensor is a wrapped number.
_NUMBERS = frozenset(("number", "Optional[number]", "List[number]", "float", "Optional[float]", "Tensor"))


class OverloadInfo:
    """One overload, classified.

    Attributes
    ----------
    special : str
        The special treatment; "" if there is none: ``values`` (reads values), ``dynamic`` (shape depends on values),
        ``decompose``, ``share`` (same object under a new handle), ``bits`` (lazy conjugate or negative), ``strided`` (a
        view that its schema calls written), ``lengths`` (of a CTC loss), ``metadata`` (changes strides in place),
        ``batch_norm``, ``index``, ``storage``, ``known`` (the client knows the answer).
    returns : tuple
        For each result, ``"view"``, ``"new"``, or the place of the written argument that is returned.
    names : list
        Names of the arguments.
    written : tuple
        Places of written arguments: a position, or a name if keyword-only.
    generator : int, str or None
        Place of the generator.
    gives_tensors : bool
        Whether all results are tensors, or lists of tensors.
    random : bool
        Whether the engine needs a key as a seed.
    loose : frozenset
        Places of numbers whose value cannot change a shape; the shape cache uses only their type as a key.
    """

    __slots__ = (
        "base",
        "func",
        "generator",
        "gives_tensors",
        "is_out",
        "loose",
        "name",
        "names",
        "only_writes",
        "random",
        "returns",
        "single",
        "special",
        "written",
    )

    def __init__(self, func: OpOverload) -> None:
        schema = schema_of(func)
        self.func = func
        self.name = func.name()
        self.base = schema.name.partition("::")[2]
        self.names = [a.name for a in schema.arguments]
        places: dict[str, int | str] = {}
        written: list[int | str] = []
        loose = []
        self.generator: int | str | None = None
        for i, a in enumerate(schema.arguments):
            place = a.name if a.kwarg_only else i
            if a.name == "generator":
                self.generator = place
            alias = a.alias_info
            if alias is not None and alias.is_write:
                written.append(place)
            if alias is not None:
                for mark in (*alias.before_set, *alias.after_set):
                    places.setdefault(mark, place)
            if str(a.type) in _NUMBERS:
                loose.append(place)
        self.written = tuple(written)
        self.random = self.generator is not None or torch.Tag.nondeterministic_seeded in func.tags
        # The length of a range depends on its numbers.
        self.loose = (
            frozenset() if self.base.rstrip("_") in ("arange", "linspace", "logspace", "range") else frozenset(loose)
        )
        self.returns = tuple(self._result(r, places) for r in schema.returns)
        self.single = len(self.returns) == 1
        self.gives_tensors = all("Tensor" in str(r.type) for r in schema.returns)
        self.is_out = any(a.is_out for a in schema.arguments)
        self.only_writes = bool(written) and not any(r in ("view", "new") for r in self.returns)
        self.special = self._special(func)

    @staticmethod
    def _result(result: Any, places: dict[str, int | str]) -> int | str:
        alias = result.alias_info
        if alias is None:
            return "new"
        if alias.is_write:
            return places[next(iter(alias.before_set or alias.after_set))]
        return "view"

    def _special(self, func: OpOverload) -> str:
        tags = func.tags
        if self.base in ("_local_scalar_dense", "item", "equal", "is_nonzero", "allclose") or (
            torch.Tag.data_dependent_output in tags
        ):
            return "values"
        if self.base in ("_has_same_storage_numel", "is_pinned"):
            return "known"
        if self.base == "_ctc_loss" and not self.is_out:
            return "" if self.name == "aten::_ctc_loss" else "lengths"
        # Masks in an index, and a one_hot that counts the classes, are refused elsewhere.
        dynamic = torch.Tag.dynamic_output_shape in tags and self.base not in ("index", "one_hot")
        if dynamic or self.base in wire.DYNAMIC:
            return "dynamic"
        if self.base in ("set_", "resize_", "resize_as_", "_resize_output_", "set_data", "record_stream") or (
            self.name == "prims::resize"
        ):
            return "storage"
        if self.base in ("detach", "alias", "lift_fresh", "lift", "detach_") and not self.is_out:
            return "share"
        if self.base in ("_conj", "_neg_view"):
            return "bits"
        if self.name == "prims::as_strided":
            return "strided"
        if torch.Tag.inplace_view in tags:
            return "metadata"
        if self.base in ("native_batch_norm", "_native_batch_norm_legit") and not self.is_out:
            return "batch_norm"
        if self.base == "index":
            return "index"
        return "decompose" if is_composite(func) else ""


_PLANS: dict[
    int, OverloadInfo
] = {}  # by id() of the overload, which the plan keeps alive: hashing an overload is a call into Python


def plan_of(func: OpOverload) -> OverloadInfo:
    """Return the `OverloadInfo` (plan) of an overload, which is made on first use."""
    plan = _PLANS.get(id(func))
    if plan is None:
        plan = _PLANS[id(func)] = OverloadInfo(func)
    return plan


def view_of(func: OpOverload) -> OpOverload:
    """Return the view overload for an in-place one like ``t_``.

    It is found by argument types, because the one for ``transpose_`` has another overload name.
    """
    packet = getattr(torch.ops.aten, schema_of(func).name.partition("::")[2].removesuffix("_"))
    types = [str(a.type) for a in schema_of(func).arguments]
    views = (getattr(packet, name) for name in packet.overloads())
    return next(f for f in views if [str(a.type) for a in schema_of(f).arguments] == types)


def functional_of(func: OpOverload) -> OpOverload | None:
    """Return the overload with the same arguments but without ``out=``, or None."""
    schema = schema_of(func)
    namespace, _, base = schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), base)
    asked = [(a.name, str(a.type)) for a in schema.arguments if not a.is_out]
    for name in packet.overloads():
        found = schema_of(getattr(packet, name)).arguments
        if [(a.name, str(a.type)) for a in found] == asked and not any(a.alias_info for a in found):
            return getattr(packet, name)
    return None


def overload(name: str) -> Any:
    """Return the overload with a full name, or None if torch has none."""
    space, _, rest = name.partition("::")
    packet, _, kind = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), packet, None), kind or "default", None)


def is_loaded(op: Any) -> bool:
    """Return whether torch has an overload; it lacks those of libraries that this process has not imported."""
    return not isinstance(op, str) or op.startswith(("aten::", "prims::")) or "::" not in op or overload(op) is not None


def name_of(op: Any) -> str:
    """Return the full name of an overload that is given by name or as an object; raise ValueError if torch lacks it."""
    name = op if isinstance(op, str) else op.name() if isinstance(op, OpOverload) else ""
    if not name or overload(name) is None:
        raise ValueError(
            f"an operator is named by its overload, as 'aten::add.Tensor' or torch.ops.aten.add.Tensor, and torch has no {op!r}"
        )
    return name


class MissingOperator(MissingKernelError, NotImplementedError):
    """Raised when an engine lacks an operator that cannot be computed with those that it has.

    Attributes
    ----------
    op : str
        Full name of the missing overload.
    lacking : tuple of str
        Overloads that could replace it, which the engine lacks too.
    needed_by : tuple of str
        The overloads that were being computed with it, outermost first.
    reason : str
        If the operator is not sent by design, the reason, as in `RPCError`; else "".
    """

    op = ""
    lacking: tuple[str, ...] = ()
    needed_by: tuple[str, ...] = ()
    reason = ""


def missing_operator(
    plan: OverloadInfo, lacks: str, names: Iterable[str], needed_by: tuple[str, ...], inner: MissingOperator | None
) -> MissingOperator:
    """Return the error for an operator that an engine lacks, with the words ``lacks``.

    ``inner`` is the error of an operator with which it would have been computed.
    """
    lacking = () if inner is None else (inner.op, *inner.lacking)
    op = plan.name
    if needed_by and op.startswith("prims::"):  # a step of torch's reference, which has no name outside it
        op, needed_by = needed_by[-1], needed_by[:-1]
    if needed_by and op.replace("_copy", "") == needed_by[-1].replace("_reshape_alias", "view"):
        lacking, op, needed_by = (op, *lacking), needed_by[-1], needed_by[:-1]
    text = f"{op}: {lacks}"
    if lacking:
        text += f", nor {' or '.join(dict.fromkeys(lacking))} that would make it"
    if needed_by:
        text += f". {needed_by[-1]} needs it"
        if len(needed_by) > 1:
            text += f", which {' for '.join(needed_by[-2::-1])} needs"
    if where := caller():
        text += f". Called at {location(where)}"
    near = ", ".join(difflib.get_close_matches(op, names, n=5)) or "none"
    error = MissingOperator(f"{text}. Nearest operators: {near}")
    error.op, error.lacking, error.needed_by = op, lacking, needed_by
    return error


def without_generator(
    plan: OverloadInfo, args: tuple, kwargs: dict[str, Any] | None
) -> tuple[torch.Generator | None, tuple, dict[str, Any] | None]:
    """Split off the generator of a random operator, which stays on the client; return it and the other arguments."""
    place = plan.generator
    if isinstance(place, int) and place < len(args):
        return args[place], (*args[:place], *args[place + 1 :]), kwargs
    if kwargs and "generator" in kwargs:
        return kwargs["generator"], args, {name: a for name, a in kwargs.items() if name != "generator"}
    return None, args, kwargs


def argument(place: int | str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Return the argument at a place, or None if it is omitted."""
    if isinstance(place, int):
        return args[place] if place < len(args) else None
    return kwargs.get(place)


def written_of(plan: OverloadInfo, args: tuple, kwargs: dict[str, Any]) -> Iterator[Any]:
    """Yield the arguments that an operator writes; lists are flattened."""
    for place in plan.written:
        target = argument(place, args, kwargs)
        yield from target if isinstance(target, (list, tuple)) else (target,)
