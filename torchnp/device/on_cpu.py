"""Operators that torch's CPU computes on the device's memory: sparse ones and, if allowed, those without a kernel."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from torchnp.device import convert
from torchnp.device._private import by_cpu, overload, overloads_under
from torchnp.interop import convert as cpu_convert
from torchnp.interop._private import OpOverload, has_kernel, schema_of

aten = torch.ops.aten

_STRUCTURE = (
    "_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors", "_coalesced_", "_indices", "_values",
    "indices", "values", "_nnz", "is_coalesced", "sparse_dim", "dense_dim", "sparse_resize_", "sparse_resize_and_clear_",
    "copy_sparse_to_sparse_",
)  # fmt: skip
"""Operators that only access a sparse tensor's parts, which are on the device; torch's CPU computes no values here."""

_COMPRESSED_STRUCTURE = (
    "crow_indices",
    "col_indices",
    "ccol_indices",
    "row_indices",
    "values",
    "_nnz",
    "sparse_dim",
    "dense_dim",
)
_BY_ROWS = (torch.sparse_csr, torch.sparse_bsr)


class _Twins:
    """Maps a call's device tensors to CPU tensors on the same memory (called twins here), and back."""

    def __init__(self) -> None:
        self._originals: dict[int, torch.Tensor] = {}
        self._kept: list[torch.Tensor] = []  # kept alive, so that no two have the same id

    def down(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            twin = _parts_as(x, self._memory_of) if x.device.type == convert.DEVICE else x
            self._kept.append(twin)
            self._originals[id(twin)] = x
            return twin
        if isinstance(x, (list, tuple)):
            return [self.down(v) for v in x]
        on_device = isinstance(x, torch.device) and x.type == convert.DEVICE
        return torch.device("cpu") if on_device else x

    def up(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            original = self._originals.get(id(x))
            return _parts_as(x, self._on_device) if original is None else original
        return type(x)(self.up(v) for v in x) if isinstance(x, (list, tuple)) else x

    @staticmethod
    def _memory_of(x: torch.Tensor) -> torch.Tensor:
        return cpu_convert.to_torch(convert.to_numpy(x.detach()))

    @staticmethod
    def _on_device(x: torch.Tensor) -> torch.Tensor:
        return convert.to_torch(cpu_convert.to_numpy(x))

    def write_back(self, twin: torch.Tensor) -> None:
        """Copy a written CPU tensor (``twin``) back to its device tensor.

        Dense tensors of unchanged size need no copy, because they share memory.
        """
        original = self._originals[id(twin)]
        if original is twin:
            return
        if twin.layout is torch.sparse_coo:
            _SET_PARTS(original, self._parts_up(twin))
        elif twin.layout is not torch.strided:
            original.values().copy_(self._on_device(twin.values()))
        elif twin.shape != original.shape or twin.data_ptr() != original.data_ptr():
            original.resize_(twin.shape).copy_(twin)

    def _parts_up(self, x: torch.Tensor) -> torch.Tensor:
        return _parts_as(x, self._on_device)


def _parts_as(x: torch.Tensor, move: Any) -> torch.Tensor:
    """Return a tensor rebuilt from its strided parts, each passed through ``move``."""
    if x.layout is torch.strided:
        return move(x)
    if x.layout is torch.sparse_coo:
        indices, values, whole = move(aten._indices(x)), move(aten._values(x)), x.is_coalesced()
        return torch.sparse_coo_tensor(indices, values, x.shape, is_coalesced=whole, check_invariants=False)
    rows = x.layout in _BY_ROWS
    along, across = (x.crow_indices(), x.col_indices()) if rows else (x.ccol_indices(), x.row_indices())
    made = (move(along), move(across), move(x.values()))
    return torch.sparse_compressed_tensor(*made, x.shape, layout=x.layout, check_invariants=False)


def compute_on_cpu(func: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run an overload on torch's CPU, on its arguments' memory.

    Writes take effect, and new results are moved to the device.
    """
    twins = _Twins()
    given, named = twins.down(args), {k: twins.down(v) for k, v in kwargs.items()}
    result = func(*given, **named)
    for i, argument in enumerate(schema_of(func).arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            written = given[i] if i < len(given) else named.get(argument.name)
            for twin in written if isinstance(written, list) else [written]:
                if twin is not None:
                    twins.write_back(twin)
    device = kwargs.get("device")
    if device is not None and torch.device(device).type != convert.DEVICE:
        return result
    return twins.up(result)


_SET_PARTS = by_cpu(aten.copy_sparse_to_sparse_.default, "SparseCPU")


def _sparse(func: OpOverload, *args: Any, **kwargs: Any) -> Any:
    return compute_on_cpu(func, args, kwargs)


def register(key: str) -> list[torch.library.Library]:
    """Register the sparse operators under the sparse variants of the device's dispatch key."""
    library, everything = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
    for kind, structure in (("Sparse", _STRUCTURE), ("SparseCsr", _COMPRESSED_STRUCTURE)):
        for name in structure:
            library.impl(name, by_cpu(overload(f"aten::{name}"), f"{kind}CPU"), f"{kind}{key}")
        # torch's kernels for all devices would take precedence over a fallback.
        for name in overloads_under(f"{kind}CPU"):
            explicit = any(
                has_kernel(name, f"CompositeExplicitAutograd{functional}") for functional in ("", "NonFunctional")
            )
            if explicit and name.removeprefix("aten::") not in structure:
                library.impl(name, partial(_sparse, overload(name)), f"{kind}{key}")
        everything.fallback(_sparse, f"{kind}{key}")
    return [library, everything]
