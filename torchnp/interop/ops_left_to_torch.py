"""Ops that torch itself runs under the mode: they work on storages, bits, versions or the parts of a sparse tensor."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from torchnp.interop._private import OpOverload, schema_of

Tensor = torch.Tensor
Run = Callable[[tuple, dict[str, Any]], Any]

# None of these ops computes a value.
BOOKKEEPING = frozenset(
    f"aten::{name}"
    for name in (
        "resize_", "resize_as_", "_resize_output_", "set_", "set_.source_Storage", "set_.source_Tensor",
        "set_.source_Storage_storage_offset", "set_.source_Tensor_storage_offset", "is_set_to",
        "_has_same_storage_numel", "_conj", "_neg_view", "lift_fresh", "is_pinned", "record_stream",
        "_efficientzerotensor", "_sparse_coo_tensor_with_dims_and_tensors", "detach", "_make_dual", "_unpack_dual",
          "sym_size.int", "sym_stride.int", "sym_numel", "sym_storage_offset",
    )
)  # fmt: skip


def bookkeeping(func: OpOverload) -> Run:
    """Return a function that runs torch's own op; resizing also works for memory that came from NumPy."""
    name = func.name()
    if name in ("aten::resize_", "aten::_resize_output_"):
        return partial(_resized, func, lambda size: size)
    if name == "aten::resize_as_":
        return partial(_resized, func, lambda template: template.shape)
    if name == "aten::_unpack_dual":  # reaches the mode only in inference mode, where torch has no tangents
        return lambda args, kwargs: (args[0].detach(), None)
    return lambda args, kwargs: func(*args, **kwargs)


def _resized(func: Any, size_of: Callable[[Any], Any], args: tuple, kwargs: dict[str, Any]) -> Tensor:
    make_room(args[0], size_of(args[1]))
    return func(*args, **kwargs)


def make_room(tensor: Tensor, size: Any) -> None:
    """Move ``tensor`` from NumPy's memory to a storage that torch can grow, if it must grow for a size.

    Other tensors stay on the old storage. Devices other than the CPU handle their own memory.
    """
    if tensor.device.type != "cpu":
        return
    storage = tensor.untyped_storage()
    need = (tensor.storage_offset() + math.prod(size)) * tensor.element_size()
    if storage.resizable() or need <= storage.nbytes() or any(n < 0 for n in size):
        return
    grown = torch.empty(storage.nbytes(), dtype=torch.uint8)
    grown.copy_(torch.empty(0, dtype=torch.uint8).set_(storage))
    tensor.set_(grown.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())


def resize(tensor: Tensor, size: Any) -> Tensor:
    """Run torch's ``resize_``, which then also works for memory that came from NumPy."""
    make_room(tensor, size)
    return torch.ops.aten.resize_.default(tensor, size)


def sparse_gradients(func: OpOverload, run: Run, by_torch: Run) -> Run:
    """Wrap the run of a gradient op so that torch computes the gradient if a sparse one is requested."""
    names = [a.name for a in schema_of(func).arguments]
    place = next((i for i, name in enumerate(names) if name in ("sparse", "sparse_grad")), None)
    if place is None or "backward" not in func.name():
        return run

    def checked(args: tuple, kwargs: dict[str, Any]) -> Any:
        asked = args[place] if place < len(args) else kwargs.get(names[place])
        return by_torch(args, kwargs) if asked else run(args, kwargs)

    return checked


# ---------------------------------------------------------------- torch.use_deterministic_algorithms

UNINITIALIZED = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})

# Ops that are nondeterministic on the CPU, with the names that torch's message has for them.
_UNDETERMINED = {
    "put": "put_",
    "put_": "put_",
    "max_unpool2d": "max_unpooling2d_forward_out",
    "max_unpool3d": "max_unpooling3d_forward_out",
}


def deterministic(func: OpOverload, run: Run) -> Run:
    """Wrap the run of an op so that it respects ``torch.use_deterministic_algorithms``."""
    packet = func.name().removeprefix("aten::").partition(".")[0]
    if packet in UNINITIALIZED:
        return partial(_filled, run)
    alert = _UNDETERMINED.get(packet)
    return run if alert is None else partial(_alerted, alert, run)


def _filled(run: Run, args: tuple, kwargs: dict[str, Any]) -> Any:
    return fill_if_deterministic(run(args, kwargs))


def fill_if_deterministic(made: Tensor) -> Tensor:
    """Fill uninitialized memory if deterministic algorithms are enabled."""
    fills = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]  # a property of the module's class
    if torch.are_deterministic_algorithms_enabled() and fills:
        if made.is_floating_point() or made.is_complex():
            made.fill_(torch.nan)
        else:
            made.fill_(True if made.dtype == torch.bool else torch.iinfo(made.dtype).max)
    return made


def _alerted(name: str, run: Run, args: tuple, kwargs: dict[str, Any]) -> Any:
    if torch.are_deterministic_algorithms_enabled():
        lacks = f"{name} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms"
        file = "file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic "
        if not torch.is_deterministic_algorithms_warn_only_enabled():
            raise RuntimeError(
                f"{lacks}(True)'. You can turn off determinism just for this operation, or you can use the "
                "'warn_only=True' option, if that's acceptable for your application. You can also "
                f"{file}support for this operation."
            )
        text = f"{lacks}(True, warn_only=True)'. You can {file}support for this operation."
        warnings.warn(text, UserWarning, stacklevel=2)
    return run(args, kwargs)
