"""The kernels of the device ``np``: rows of `torchnp.table`, each looked up when its operator is first called.

Some operators do not use a row:

- torch decomposes composite operators (``CompositeImplicitAutograd``) unless its CPU has kernels for them.
- Views compute nothing: torch's own code determines their sizes and strides.
- `_OWN` has the operators that move or resize storages, which arrays do not have, and a few others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

import torchnp
from torchnp.core import libraries
from torchnp.device import convert, nested, on_cpu
from torchnp.device._private import by_cpu, is_overload, overload
from torchnp.dtypes import default_dtype, get_default_dtype
from torchnp.interop import convert as cpu_convert
from torchnp.interop import kernel_runner, ops_left_to_torch
from torchnp.interop._private import OpOverload, has_kernel, schema_of
from torchnp.interop.convert import NUMPY_DTYPE, as_torchs
from torchnp.interop.mode import MissingKernelError
from torchnp.interop.rng_sync import is_random, on_torchs_stream
from torchnp.kernels.lu import LinAlgError
from torchnp.layout import stride_rules

KEY = "PrivateUse1"
aten = torch.ops.aten

fallbacks: Counter[str] = Counter()
"""Number of calls per overload that fell back to torch's CPU (see `allow_fallback`)."""

allow_fallback = False

_RUNNER = kernel_runner.Runner(convert)


class _Both:
    """Memory access for operators whose arguments may be on the device or on the CPU."""

    DEVICE, SPOKEN = convert.DEVICE, convert.SPOKEN
    share = to_numpy = staticmethod(convert.share_any)
    check_index = staticmethod(convert.check_index)
    wrap, to_torch, address = (
        staticmethod(convert.wrap),
        staticmethod(convert.to_torch),
        staticmethod(convert.address),
    )


_OF_BOTH = kernel_runner.Runner(_Both())
_TAKE_BOTH = frozenset(
    f"aten::{name}"
    for name in (
        "index.Tensor", "index.Tensor_out", "index_put", "index_put_", "_index_put_impl_", "index_put.out",
    )
)  # fmt: skip
"""Operators that accept index tensors on the CPU, as they do in torch."""


_spaces: dict[str, torch.library.Library] = {}  # by namespace; torch needs them alive
_of_libraries: set[str] = set()  # the registered rows of other libraries


def register() -> list[torch.library.Library]:
    """Register every row; return torch's library objects, which must stay alive."""
    _spaces.update((space, torch.library.Library(space, "IMPL")) for space in libraries.OWN)
    for name in torchnp.table:
        if name.partition("::")[0] in libraries.OWN and name not in _LEFT and name not in _OWN:
            _register(name)
    for name, function in _OWN.items():
        _spaces["aten"].impl(name, function, KEY)
    _spaces["aten"].impl("_pin_memory", _pinned, "CPU")
    for key in (KEY, f"Autograd{KEY}"):
        _spaces["aten"].impl("_has_compatible_shallow_copy_type", _may_take_data, key)
    for bit in ("Conjugate", "Negative"):  # the schema does not mark the target as written, so torch would copy it
        _spaces["aten"].impl("_copy_from", torch.library.fallthrough_kernel, bit)
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(_missing, KEY)
    libraries.watch(register_libraries)
    return [*_spaces.values(), everything, *on_cpu.register(KEY)]


def _register(name: str) -> None:
    space = name.partition("::")[0]
    if has_kernel(name, "CompositeImplicitAutograd") and not has_kernel(name, "CPU"):
        return
    if space != "aten" or not _is_view(name):
        _spaces[space].impl(name, _lazy(name), KEY)
    elif has_kernel(name, "CPU") and not has_kernel(name, "CompositeExplicitAutograd"):
        _spaces[space].impl(name, by_cpu(overload(name)), KEY)


def register_libraries() -> None:
    """Register the declared rows of other libraries' operators that torch knows by now."""
    for name in {*libraries.SCHEMAS} - _of_libraries:
        if name in torchnp.table and is_overload(name) and not has_kernel(name, KEY):
            space = name.partition("::")[0]
            if space not in _spaces:
                _spaces[space] = torch.library.Library(space, "IMPL")
            _register(name)
            _of_libraries.add(name)


def _lazy(name: str) -> Callable[..., Any]:
    """Return a kernel that builds its row's function at the first call."""
    run: kernel_runner.Run | None = None

    def first(args: tuple, kwargs: dict[str, Any]) -> Any:
        nonlocal run
        run = _run_of(name)
        return run(args, kwargs)

    run = first

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            default = NUMPY_DTYPE[torch.get_default_dtype()]
            if default is get_default_dtype():
                return run(args, kwargs)
            with default_dtype(default):
                return run(args, kwargs)
        except (LinAlgError, MemoryError, ValueError) as error:
            raise as_torchs(error) from None
        except (kernel_runner.Foreign, kernel_runner.OnMeta) as reason:
            device = kwargs.get("device")
            if device is not None and torch.device(device).type != convert.DEVICE:
                return _elsewhere(name, call, args, kwargs)
            words = "Expected all tensors to be on the same device, but found at least two devices, np:0 and meta!"
            raise RuntimeError(str(reason) or words) from None

    return call


def _elsewhere(name: str, here: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """Compute a result for another device (``zeros_like(x, device="cpu")``) on this device, and move it there."""
    device = torch.device(kwargs["device"])
    if device.type != "meta":
        return here(*args, **kwargs | {"device": None}).to(device)
    sizes = [x.to("meta") if isinstance(x, torch.Tensor) else x for x in args]
    return overload(name)(*sizes, **kwargs)


def _run_of(name: str) -> kernel_runner.Run:
    func = overload(name)
    runner = _OF_BOTH if name in _TAKE_BOTH else _RUNNER
    made = runner.run_of(func, torchnp.table[name])
    run = ops_left_to_torch.deterministic(
        func, ops_left_to_torch.sparse_gradients(func, made, partial(on_cpu.compute_on_cpu, func))
    )
    return on_torchs_stream(run, convert.DEVICE) if is_random(func) else run


_TO_SPARSE = ("aten::_to_sparse", "aten::sparse_mask", "aten::_sparse_mask_projection")
"""Name prefixes of operators that make a dense tensor sparse.

torch's CPU code runs them, as it runs all sparse operators.
"""


def _missing(func: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Handle operators without a kernel: raise an error, or let torch's CPU compute if `allow_fallback` is set."""
    name = func.name()
    # Declared, or registered in torch, after the last registration.
    if func.namespace not in libraries.OWN and name in torchnp.table:
        register_libraries()
        return _run_of(name)(args, kwargs)
    if name.startswith(_TO_SPARSE):
        return on_cpu.compute_on_cpu(func, args, kwargs)
    if not allow_fallback:
        near = ", ".join(torchnp.table.close_names(name)) or "none"
        raise MissingKernelError(
            f"{name}: the device np has no kernel for this op. Nearest rows: {near}. "
            "torch.np.fallback(True) lets torch's CPU compute it."
        )
    fallbacks[name] += 1
    return on_cpu.compute_on_cpu(func, args, kwargs)


# ---------------------------------------------------------------- storages


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    if target.device.type == "cpu":
        target.copy_(cpu_convert.wrap(np.asarray(convert.to_numpy(source), order="C")))
    else:
        seen = convert.seen_through(target, convert.share_any(source))
        torchnp.table["aten::copy_"](convert.physical(target), seen)
    return target


def _resize(tensor: torch.Tensor, size: Any, *, memory_format: Any = None) -> torch.Tensor:
    """Run ``resize_``. The storage grows for all tensors that share it; new elements are zeros."""
    if memory_format is None and tensor.shape == torch.Size(size):
        return tensor
    like = torch.empty(size, device="meta", memory_format=memory_format or torch.contiguous_format)
    storage = tensor.untyped_storage()
    before = storage.nbytes() // tensor.element_size()
    _set(tensor, storage, int(tensor.storage_offset()), like.shape, like.stride())
    new = storage.nbytes() // tensor.element_size() - before
    if new > 0:
        ops_left_to_torch.fill_if_deterministic(
            _SET(torch.empty(0, dtype=tensor.dtype, device=tensor.device), storage, before, (new,), (1,))
        )
    return tensor


def _resize_as(tensor: torch.Tensor, template: torch.Tensor, *, memory_format: Any = None) -> torch.Tensor:
    if memory_format is torch.preserve_format:
        memory_format = getattr(torch, stride_rules.suggested(template.shape, template.stride()))
    return _resize(tensor, template.shape, memory_format=memory_format)


def _set_to_nothing(tensor: torch.Tensor) -> torch.Tensor:
    nothing = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return _SET(tensor, nothing.untyped_storage(), 0, (0,), (1,))


def grow(storage: torch.UntypedStorage, nbytes: int) -> None:
    """Grow a storage to at least ``nbytes`` bytes, for all tensors that share it."""
    if nbytes > storage.nbytes():
        grown = np.zeros(nbytes, np.uint8)
        grown[: storage.nbytes()] = convert.bytes_of(storage)
        convert.hold(storage, grown)


_AS_STRIDED = by_cpu(aten.as_strided.default)
_SET = by_cpu(aten.set_.source_Storage_storage_offset)


def _as_strided_(tensor: torch.Tensor, size: Any, stride: Any, offset: int | None = None) -> torch.Tensor:
    there = _AS_STRIDED(tensor, size, stride, offset)  # raises torch's error if the view extends beyond the storage
    return _SET(tensor, tensor.untyped_storage(), there.storage_offset(), size, stride)


def _set(tensor: torch.Tensor, storage: torch.UntypedStorage, offset: int, size: Any, stride: Any = ()) -> torch.Tensor:
    """Run ``set_``, growing the storage if needed."""
    stride = stride or torch.empty(size, device="meta").stride()
    reach = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if all(size) else 0
    grow(storage, (offset + reach) * tensor.element_size() if reach else 0)
    return _SET(tensor, storage, offset, size, stride)


def _set_source(tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return _SET(tensor, source.untyped_storage(), source.storage_offset(), source.shape, source.stride())


def _pack(tensor: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Run ``_pack_padded_sequence``, with the lengths and the resulting batch sizes on the CPU."""
    data, sizes = torchnp.table["aten::_pack_padded_sequence"](
        convert.share_any(tensor), convert.share_any(lengths), batch_first
    )
    return convert.wrap(data), cpu_convert.wrap(sizes)


def _may_take_data(tensor: torch.Tensor, data: torch.Tensor) -> bool:
    """Return whether ``tensor.data = data`` is allowed: between the CPU and the device, as between the CPU and CUDA.

    torch's own list of device pairs lacks PrivateUse1, so ``Module.to`` would make new parameters.
    """
    return {tensor.device.type, data.device.type} <= {"cpu", convert.DEVICE} and tensor.layout == data.layout


_FLOAT_HISTC = _lazy("aten::histc")


def _histc(tensor: torch.Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> torch.Tensor:
    """Run ``histc``, for integers too.

    torch's CPU refuses integers, but libraries expect every other device to accept them.
    """
    if tensor.dtype.is_floating_point or tensor.dtype == torch.bool:
        return _FLOAT_HISTC(tensor, bins, min, max)
    return _FLOAT_HISTC(tensor.double(), bins, min, max).to(tensor.dtype)


_OWN: dict[str, Callable[..., Any]] = {
    "aten::_copy_from": _copy_from,
    "aten::_copy_from_and_resize": lambda source, target: _copy_from(source, target.resize_(source.shape)),
    "aten::_pack_padded_sequence": _pack,
    "aten::histc": _histc,
    "aten::resize_": _resize,
    "aten::resize_as_": _resize_as,
    "aten::as_strided_": _as_strided_,
    "aten::set_.source_Storage_storage_offset": _set,
    "aten::set_.source_Storage": by_cpu(aten.set_.source_Storage),
    "aten::set_.source_Tensor": _set_source,
    "aten::set_": _set_to_nothing,
    "aten::_fused_sdp_choice": lambda *args, **kwargs: 0,  # the math backend
    "aten::_nested_tensor_from_mask": nested.nested_tensor_from_mask,
    "aten::is_pinned": lambda tensor, device=None: False,
    "aten::record_stream": lambda tensor, stream: None,
}
"""Operators that the device implements itself, instead of using rows."""


def _is_view(name: str) -> bool:
    marks = [a.alias_info for a in schema_of(overload(name)).arguments if a.alias_info is not None]
    return bool(marks) and not any(m.is_write for m in marks)


def _pinned(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
    """Copy the tensor. The device's memory is CPU memory, so nothing has to be pinned."""
    return tensor.clone()


_LEFT = frozenset({"aten::copy_", "aten::_to_copy", "aten::detach", "aten::alias"})
"""Rows that are not registered: torch handles these operators by ``_copy_from``, which crosses devices, or as views."""
