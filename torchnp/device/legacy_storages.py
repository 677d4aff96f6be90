"""``torch.np.FloatStorage`` and similar: the deprecated typed storage classes that torch has for each device."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from torchnp.device._private import LegacyStorage, class_property, storage_names, warn_of_typed_storages
from torchnp.interop.convert import NUMPY_DTYPE


class _NpLegacyStorage(LegacyStorage):
    @classmethod
    def from_buffer(cls, *args: Any, **kwargs: Any) -> Any:
        warn_of_typed_storages()
        raise RuntimeError("from_buffer: Not available for np storage")

    @classmethod
    def _new_shared_filename(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("_new_shared_filename: Not available for np storage")


def add_to(module: ModuleType) -> None:
    """Add a class for each dtype for which torch has a storage name."""
    for dtype, name in storage_names().items():
        if dtype in NUMPY_DTYPE:  # the device has no quantized dtypes
            setattr(module, name, _class_of(dtype, name, module.__name__))


def _class_of(dtype: torch.dtype, name: str, home: str) -> type:
    def told(cls: type) -> torch.dtype:
        warn_of_typed_storages()
        return dtype

    own = {"__module__": home, "dtype": class_property(told), "_dtype": class_property(lambda cls: dtype)}
    return type(LegacyStorage)(name, (_NpLegacyStorage,), own)
