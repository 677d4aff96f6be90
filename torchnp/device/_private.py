"""The private names of torch that only `torchnp.device` uses, each looked up at import."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from torchnp.interop._private import OpOverload, absent, lookup


def need(path: str) -> Any:
    """Return the object at a dotted path below ``torch``, or raise an error that names it."""
    found = lookup(path)
    if found is None:
        absent(f"torch.{path}")()
    return found


set_up_device: Callable[..., None] = need("utils.backend_registration._setup_privateuseone_for_python_backend")
"""Turn torch's spare device (PrivateUse1) into one whose kernels are Python functions."""

DeviceHooks: Any = need("utils.backend_registration._DummyPrivateUse1Hook")
"""Default implementation of the hooks that torch calls on such a device."""

_Guard: Any = need("_C._acc.DeviceGuard")
_OWN_TYPE = need("_C._autograd.DeviceType.PrivateUse1")


class DeviceGuard(_Guard):
    """The device guard. torch asks it for the device type many times in a call, so `type_` looks nothing up."""

    def type_(self, own: Any = _OWN_TYPE) -> Any:
        return own


empty_on_device: Callable[..., torch.Tensor] = need("_C._acc.create_empty_tensor")
"""Make a contiguous tensor on the device with a size and a dtype; its storage has no memory yet."""

storage_at: Callable[..., Any] = need("_C._construct_storage_from_data_pointer")
"""Make a storage on a device from an address and a length in bytes; the storage does not own the memory."""

swap_memory: Callable[[Any, Any], None] = need("UntypedStorage._swap_data_ptr_")
"""Exchange the memory of two storages; both have the same length, or one has none."""

LegacyStorage: Any = need("storage._LegacyStorage")
"""Base class of the deprecated typed storages; the name of a class's module tells its device."""

storage_names: Callable[[], dict[torch.dtype, str]] = need("storage._dtype_to_storage_type_map")
"""Names of the typed storages by dtype."""

warn_of_typed_storages: Callable[[], None] = need("storage._warn_typed_storage_removal")
"""Warn that typed storages are deprecated."""

class_property: Any = need("_utils.classproperty")
"""Decorator for a property of a class."""

is_overload: Callable[[str], bool] = need("_C._dispatch_has_kernel")
"""Return whether torch has an overload of this full name."""

_exclude: Any = need("_C._ExcludeDispatchKeyGuard")
_key_set: Any = need("_C.DispatchKeySet")


overloads_under: Callable[[str], list[str]] = need("_C._dispatch_get_registrations_for_dispatch_key")
"""Return the full names of all overloads with a kernel under a dispatch key."""


def without(key: str) -> Any:
    """Return a context manager that excludes a dispatch key."""
    return _exclude(_key_set(getattr(torch._C.DispatchKey, key)))


def overload(name: str) -> OpOverload:
    """Return the overload with a full name."""
    space, _, rest = name.partition("::")
    packet, _, kind = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), packet), kind or "default")


def by_cpu(func: OpOverload, key: str = "CPU") -> Callable[..., Any]:
    """Return an overload's CPU kernel for tensors of any device. The kernel must touch only sizes and strides."""
    return functools.partial(func._op_dk, getattr(torch.DispatchKey, key))


_as_strided_of_cpu = by_cpu(torch.ops.aten.as_strided.default)


def strided_on(tensor: torch.Tensor, size: Any, stride: Any = None, offset: int | None = None) -> torch.Tensor:
    """Return a tensor on another tensor's storage that autograd does not track as a view.

    The default strides are row-major.
    """
    if stride is None:
        stride = torch.empty(size, device="meta").stride()
    return _as_strided_of_cpu(tensor, size, stride, offset)


if TYPE_CHECKING:

    class Storage(torch.UntypedStorage):
        """A storage whose Python object keeps the storage's array alive."""

        array: Any
