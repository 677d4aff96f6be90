"""Shape inference without data: the specs of an operator's results come from a cache or from torch's meta device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch

import torchnp
from torchnp.core.registry import FAILURES
from torchnp.engine.tensor.overload_info import OverloadInfo, functional_of
from torchnp.engine.tensor.random_keys import unmoved
from torchnp.interop._private import base_of, shaped_by_python
from torchnp.kernels._conv_checks import strides_of_result
from torchnp.layout.named_rules import rules_of
from torchnp.layout.overlap import are_apart
from torchnp.rpc import wire
from torchnp.rpc.exceptions import HandleError, ValueAccessError

DYNAMIC = "the shapes of results depend on values"  # reason of a refusal
MAX_CACHED = 1 << 14
MAX_TRIED = 1 << 20  # elements
# Python meta functions may infer another dtype than the CPU's, so calls up to this many elements are tried on the CPU.
MAX_CHECKED = 1 << 12
# Overloads whose dtypes, sizes or strides differ between the meta device and the CPU. Small calls are tried on the CPU,
# and so are prims, because they accept integers only on the CPU.
_OTHERWISE = frozenset((
    "aten::_fft_c2c", "aten::_fft_c2r", "aten::_fft_r2c",
    "aten::_foreach_pow.Scalar", "aten::_foreach_pow.ScalarList", "aten::_foreach_powsum.Scalar",
    "aten::_embedding_bag", "aten::_embedding_bag_forward_only", "aten::_native_multi_head_attention",
    "aten::_native_batch_norm_legit_functional", "aten::_batch_norm_with_update_functional",
    "aten::_batch_norm_no_update", "aten::channel_shuffle", "aten::pixel_shuffle",
    "aten::multilabel_margin_loss_forward", "aten::_weight_norm_interface", "aten::grid_sampler_2d", "aten::roll",
    "aten::sub_.Tensor", "aten::linalg__powsum",
))  # fmt: skip


RANGES = frozenset(("linspace", "logspace"))
"""Operators whose results have the default dtype or its complex counterpart, whatever the dtypes of their arguments."""


class TensorSpec:
    """Sizes, strides, storage offset and dtype of a tensor.

    `spec_of` interns specs, so equal specs that are alive are identical.
    """

    __slots__ = ("__weakref__", "contiguous", "dtype", "offset", "size", "stride")

    def __init__(self, size: tuple, stride: tuple, offset: int, dtype: torch.dtype) -> None:
        self.size, self.stride, self.offset, self.dtype = size, stride, offset, dtype
        self.contiguous = self.fresh().is_contiguous()

    def fresh(self) -> torch.Tensor:
        """Return a new meta tensor with this spec."""
        if not self.offset:
            return torch.empty_strided(self.size, self.stride, dtype=self.dtype, device="meta")
        reach = self.offset + 1 + sum((n - 1) * s for n, s in zip(self.size, self.stride, strict=True) if n)
        return torch.empty(reach, dtype=self.dtype, device="meta").as_strided(self.size, self.stride, self.offset)

    def with_stride(self, stride: tuple) -> TensorSpec:
        """Return the spec with other strides, because the meta device does not always lay out results like the CPU."""
        if len(stride) != len(self.size) or stride == self.stride:
            return self
        return spec_of(torch.empty_strided(self.size, stride, dtype=self.dtype, device="meta"))


class _Given:
    """Arguments in the form that stride rules take: tensors as arrays without data."""

    def __init__(self, plan: OverloadInfo, args: tuple, kwargs: dict[str, Any]) -> None:
        self._names, self._args, self._kwargs = plan.names, args, kwargs

    def __call__(self, place: int) -> Any:
        return _as_array(self._args[place] if place < len(self._args) else self._kwargs.get(self._names[place]))


def _as_array(a: Any) -> Any:
    if isinstance(a, torch.Tensor):
        dtype = wire.dtype_of(str(a.dtype).removeprefix("torch."))
        strides = [s * dtype.itemsize for s in a.stride()]
        bytes_alone = np.lib.stride_tricks.as_strided(
            np.empty(1, f"V{dtype.itemsize}"), a.shape, strides, writeable=False
        )
        return bytes_alone.view(dtype)
    return [_as_array(x) for x in a] if isinstance(a, (list, tuple)) else a


def _of_a_convolution(shape: tuple, given: Callable[[int], Any], place: int) -> tuple:
    """Return the strides of a convolution's result by the kernel's own rule; they depend on the CPU's algorithm."""
    return strides_of_result(shape, *map(given, range(9)))


_SPECS: WeakValueDictionary[tuple, TensorSpec] = WeakValueDictionary()


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    """Return the interned spec of a tensor's metadata."""
    key = (tensor.size(), tensor.stride(), int(tensor.storage_offset()), tensor.dtype)
    spec = _SPECS.get(key)
    if spec is None:
        spec = _SPECS[key] = TensorSpec(*key)
    return spec


class InferredResults:
    """The inferred results of an operator, flattened: a spec per tensor (None if there is none), and their grouping.

    ``groups`` has an entry per result of the schema: the length of a list, or -1 for a tensor. ``expected`` has the
    strides and holes for the wire; it is empty if all results are in C order. ``overlapping`` says whether elements of a
    new result share memory. ``one`` is the spec of the only result,
    if that is a new tensor or a view. ``floats`` says whether integers become a default dtype that is not the engine's.
    """

    __slots__ = ("count", "expected", "floats", "groups", "one", "overlapping", "specs")

    def __init__(self, plan: OverloadInfo, out: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        self.specs: list[TensorSpec | None] = []
        self.groups: list[int] = []
        results = (out,) if plan.single else () if out is None else tuple(out)
        views = []
        # The rules are for new memory; the schemas of unsafe views falsely declare new memory.
        fresh = "new" in plan.returns and plan.base not in wire.UNSAFE_VIEWS
        rules = (
            [_of_a_convolution]
            if plan.base == "convolution"
            else rules_of(torchnp.table.schemas[plan.name])
            if fresh and plan.name in torchnp.table.schemas
            else []
        )
        given = _Given(plan, args, kwargs)
        for place, (result, kind) in enumerate(zip(results, plan.returns, strict=True)):
            if kind not in ("view", "new"):
                continue
            listed = isinstance(result, (list, tuple))
            self.groups.append(len(result) if listed else -1)
            rule = rules[place] if kind == "new" and rules else None
            for i, tensor in enumerate(result if listed else (result,)):
                spec = None if tensor is None else spec_of(tensor)
                if rule is not None and spec is not None and spec.size:
                    spec = spec.with_stride(rule(tuple(spec.size), given, i))
                self.specs.append(spec)
                views.append(kind == "view")
        self.count = sum(s is not None for s in self.specs)
        self.one = self.specs[0] if plan.single and self.groups == [-1] else None
        self.expected: list[Any] = [
            wire.HOLE if s is None else None if view or s.contiguous else list(s.stride)
            for s, view in zip(self.specs, views, strict=True)
        ]
        self.overlapping = any(
            type(e) is list and not are_apart(s.size, e)  # type: ignore[union-attr]
            for s, e in zip(self.specs, self.expected, strict=True)
        )
        if all(e is None for e in self.expected):
            self.expected = []
        self.floats = torch.get_default_dtype() is not torch.float32 and self._floats(plan, args, kwargs)

    def _floats(self, plan: OverloadInfo, args: tuple, kwargs: dict[str, Any]) -> bool:
        default = torch.get_default_dtype()
        if plan.base in RANGES:
            return kwargs.get("dtype") is None
        made = {spec.dtype for spec in self.specs if spec is not None}
        if plan.base == "where" or not made & {default, default.to_complex()} or kwargs.get("dtype"):
            return False
        if plan.base.startswith("_foreach_"):
            return any(self.is_floated(i, x) for i, x in enumerate(args[0]))
        dtypes = [a.dtype for a in args if isinstance(a, torch.Tensor)]
        return bool(dtypes) and not any(d.is_floating_point or d.is_complex for d in dtypes)

    def is_floated(self, place: int, given: torch.Tensor) -> bool:
        """Return whether an integer tensor of a list is converted to the default dtype."""
        spec, default = self.specs[place] if place < len(self.specs) else None, torch.get_default_dtype()
        whole = not (given.dtype.is_floating_point or given.dtype.is_complex)
        return whole and spec is not None and spec.dtype in (default, default.to_complex())


OUTCOMES: dict[tuple, InferredResults] = {}
"""Cached results of inference, by operator, argument specs and options; see `remember`."""


def remember(key: tuple, outcome: InferredResults) -> None:
    """Cache an outcome in `OUTCOMES`."""
    if len(OUTCOMES) > MAX_CACHED:
        OUTCOMES.clear()
    OUTCOMES[key] = outcome


def infer(plan: OverloadInfo, stand_ins: Callable[[], tuple[tuple, dict[str, Any]]]) -> InferredResults:
    """Run an operator on the meta device, on new stand-ins; raise torch's own error if the arguments do not fit."""
    args, kwargs = stand_ins()
    given = [x.shape for x in _tensors(args)] if plan.written and not plan.is_out else []
    try:
        out = plan.func(*args, **kwargs)
    except (*FAILURES, AssertionError) as error:
        args, kwargs = stand_ins()  # written arguments may have been reshaped
        out = on_the_cpu(plan, args, kwargs, error)
    else:
        named = dict(zip(plan.names, args, strict=False)) | kwargs
        # Arguments that the meta device has resized cannot be tried on the CPU. Without bags, torch may crash.
        resized = given and given != [x.shape for x in _tensors(args)]
        bagless = named.get("include_last_offset") and named["offsets"].shape[0] < 2
        otherwise = plan.name in _OTHERWISE or plan.name.startswith("prims::")
        limit = MAX_TRIED if otherwise else MAX_CHECKED if shaped_by_python(plan.func) else 0
        # An error may name the default dtype. It must be the client's default; the server has another one.
        words = torch.get_default_dtype() is not torch.float32 and not plan.random and not _has_floats((args, kwargs))
        if (limit or words) and not (resized or bagless) and _can_be_tried((args, kwargs), limit or MAX_CHECKED):
            with unmoved(), warnings.catch_warnings(action="ignore"):
                found, refused = _tried(plan, 0, args, kwargs)
                if "ZeroDivisionError" in str(refused):
                    found, refused = _tried(plan, 1, args, kwargs)
            if refused is not None and _is_of_dtypes(refused):
                raise refused
            out = found if limit and not refused else out
    if not plan.written:
        args, kwargs = stand_ins()  # a meta function may have changed its arguments: slow_conv_transpose2d adds a batch
    if plan.name == "aten::native_layer_norm":
        out = _with_moments(out, args)
    legit = plan.base.startswith("_native_batch_norm_legit") or plan.name == "aten::native_batch_norm"
    if legit and plan.name not in _OTHERWISE:
        out = _with_statistics(plan, out, args)
    return InferredResults(plan, out, args, kwargs)


def laid_out(
    plan: OverloadInfo, place: int, meta: torch.Tensor, kept: list[torch.Tensor], args: list, kwargs: dict[str, Any]
) -> torch.Tensor:
    """Lay out an empty ``out=`` like a new result of the operator; the meta device would make it row-major.

    ``kept`` holds the outputs that already had the right shape.
    """
    if kept and plan.name == "aten::frexp.Tensor_out":
        return torch.empty_like(kept[0], dtype=meta.dtype)
    # For generated overloads, and for a complex abs, the CPU makes a result and copies it into row-major memory.
    copied = torch.Tag.generated in plan.func.tags or (plan.name == "aten::abs.out" and args[0].is_complex())
    func = None if copied else functional_of(plan.func)
    schema = None if func is None else torchnp.table.schemas.get(func.name())
    rules = rules_of(schema) if schema is not None else []
    rule = rules[place] if place < len(rules) else None
    if rule is None or not meta.shape:
        return meta
    new = spec_of(meta).with_stride(rule(tuple(meta.shape), _Given(plan, tuple(args), kwargs), 0)).fresh()
    # The functional form keeps the strides of size-1 dimensions.
    return meta if plan.name == "aten::conj_physical.out" and new.is_contiguous() else new


def _with_statistics(plan: OverloadInfo, out: Any, args: tuple) -> Any:
    """Add the CPU's saved batch norm statistics: empty without training, float32 if a parameter has another dtype."""
    x, *parameters = (a for a in args if isinstance(a, torch.Tensor))
    dtype = torch.float32 if any(p.dtype != x.dtype for p in parameters) else x.dtype
    n = 0 if plan.base.endswith("no_training") else x.shape[1]
    saved = torch.empty(n, dtype=dtype, device="meta")
    return (out[0], saved, saved)


def _with_moments(out: Any, args: tuple) -> Any:
    """Convert the saved layer norm moments to the CPU's dtype: the input's, or float32 if a parameter has another."""
    mixed = any(a is not None and a.dtype != args[0].dtype for a in args[2:4])
    dtype = torch.float32 if mixed else args[0].dtype
    return (out[0], *(moment.to(dtype) for moment in out[1:]))


def _has_floats(given: Any) -> bool:
    return any(a.is_floating_point() or a.is_complex() for a in _tensors(given))


def _can_be_tried(given: Any, limit: int = MAX_TRIED) -> bool:
    """Return whether CPU tensors with the arguments' shapes are small enough to try the operator on them."""
    tensors = list(_tensors(given))
    return sum(a.numel() for a in tensors) <= limit and sum(map(extent, tensors)) <= 4 * limit


def extent(a: torch.Tensor) -> int:
    """Return the number of storage elements up to a tensor's last element."""
    reach = sum((n - 1) * s for n, s in zip(a.shape, a.stride(), strict=True)) + 1 if a.numel() else 0
    return int(a.storage_offset()) + reach


def elsewhere(plan: OverloadInfo, handle: torch.Tensor, meta: torch.Tensor) -> torch.Tensor:
    """Return memory for a result at the offset of an empty ``out=``: in its base if that is larger, else new memory."""
    engine = handle._session  # type: ignore[attr-defined]
    if not engine.strided:
        return engine.known(torch.zeros(meta.shape, dtype=meta.dtype).as_strided(meta.shape, meta.stride()))
    offset, end, base = handle.storage_offset(), extent(meta), base_of(handle)
    memory = base if base is not None and base.dtype == handle.dtype and extent(base) > offset else None
    if memory is None:
        memory = torch.ops.aten.new_empty.default(handle, [end])
    elif extent(memory) < end:
        raise HandleError(
            f"{plan.name}: out= has no room for the result of shape {tuple(meta.shape)} in what it is a view of; a handle "
            "is not resized",
            "a handle is not resized",
        )
    return torch.ops.aten.as_strided.default(memory, meta.shape, meta.stride(), offset)


def on_the_cpu(plan: OverloadInfo, args: tuple, kwargs: dict[str, Any], error: Exception) -> Any:
    """Infer an operator that the meta device lacks or refuses by running it on the CPU, or raise the CPU's error.

    The CPU runs it on zeros and on ones, or on ones and twos if only zeros fail. If both runs agree, their result is
    assumed to hold for all values.
    """
    if not _can_be_tried((args, kwargs)):
        return _as_without_out(plan, args, kwargs, error)
    with unmoved():
        found, refused = zip(*(_tried(plan, value, args, kwargs) for value in (0, 1)), strict=True)
        if refused[1] is None and refused[0] is not None:  # zero was a divisor or a bound
            found, refused = zip((found[1], None), _tried(plan, 2, args, kwargs), strict=True)
    if None not in refused:
        first, second = refused
        if (type(first), str(first)) != (type(second), str(second)):
            by_values = _depends(plan, error)
            if by_values is not error:
                raise by_values
            raise first if _is_of_dtypes(first) or _is_out_of_bounds(second) else second
        raise first
    if refused[0] is None and (_is_out_of_bounds(refused[1]) or _is_of_dtypes(error)):
        return found[0]  # zeros are valid indices; for dtypes that only the meta device refuses, the CPU's shapes hold
    if refused != (None, None):
        raise _depends(plan, error)
    shapes = [[(x.shape, x.dtype) for x in _tensors(out)] for out in found]
    if shapes[0] != shapes[1]:
        raise _depends(plan, error)
    return found[0]


_OF_DTYPES = (
    "dtype",
    "scalar type",
    "Promotion for",
    "not implemented for",
    "to be long or int, got",
    "to have the same type as",
    "with two bool tensors",
    "result type ",
)


def _is_of_dtypes(error: Exception) -> bool:
    """Return whether an error is about dtypes, which the CPU refuses whatever the values are."""
    return any(word in str(error) for word in _OF_DTYPES)


def _is_out_of_bounds(error: Exception) -> bool:
    return isinstance(error, IndexError) or "out of bounds" in str(error) or "out of range" in str(error)


def _as_without_out(plan: OverloadInfo, args: tuple, kwargs: dict[str, Any], error: Exception) -> Any:
    """Infer ``out=`` with the functional overload, if a meta function does not have that argument."""
    func = functional_of(plan.func) if plan.is_out and isinstance(error, TypeError) else None
    if func is None:
        raise error
    outs = [kwargs[name] for name in plan.written if isinstance(name, str)]
    results = func(*args, **{name: a for name, a in kwargs.items() if name not in plan.written})
    for out, result in zip(outs, results if isinstance(results, tuple) else (results,), strict=True):
        if out.shape != result.shape:
            out.resize_(result.shape)
    return outs[0] if plan.single else tuple(outs)


def _depends(plan: OverloadInfo, error: Exception) -> Exception:
    """Return the meta device's error, or a ValueAccessError if that error comes from missing values."""
    if any(word in str(error) for word in ("meta tensor", "Meta tensor", " meta ", "not allocated yet")):
        return ValueAccessError(
            f"{plan.name} looks at values to know the shapes of its results, and they are not here: publish() what it "
            "looks at, or use an operator whose shapes are known",
            DYNAMIC,
        )
    return error


def _tried(plan: OverloadInfo, value: int, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Exception | None]:
    """Run an operator on CPU tensors filled with a value; return (results, error)."""

    def filled(a: Any) -> Any:
        if isinstance(a, torch.Tensor):
            # An embedding bag reads past the end of an argument that is expanded with strides of 0.
            memory = torch.full((max(extent(a), a.numel()),), value, dtype=a.dtype)
            return memory.as_strided(a.shape, a.stride(), a.storage_offset())
        if isinstance(a, (list, tuple)):
            return type(a)(map(filled, a))
        return torch.device("cpu") if isinstance(a, torch.device) else a

    values, named = filled(args), {k: filled(v) for k, v in kwargs.items()}
    try:
        out = plan.func(*values, **named)
    except (*FAILURES, AssertionError) as error:
        return None, error
    for a, meta in zip(_tensors((values, named)), _tensors((args, kwargs)), strict=True):
        if a.shape != meta.shape:  # an out= was resized: resize the meta tensor too
            meta.resize_(a.shape)
    return out, None


def _tensors(x: Any) -> Iterator[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (list, tuple, dict)):
        for y in x.values() if isinstance(x, dict) else x:
            yield from _tensors(y)
