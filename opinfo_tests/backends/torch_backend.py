"""torch itself as a backend: the oracle, which is torch on the CPU, and any other torch device by name."""

from __future__ import annotations

import time
from collections.abc import Container
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch

from ..case import DTYPES, Array, Case, Named, Seeded, leaves, map_tree, schemas
from ..schema_facts import is_out, resizable_buffers, siblings
from .backend import Backend, Seen, error_of, structure_of

TORCH_DTYPES = {name: getattr(torch, name) for name in DTYPES}
DTYPE_NAMES = {dt: name for name, dt in TORCH_DTYPES.items()}
LAYOUTS = {"strided": torch.strided, "sparse_coo": torch.sparse_coo, "sparse_csr": torch.sparse_csr}
FORMATS = {n: getattr(torch, n) for n in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")}


def overload_of(op: str) -> Any:
    """Return torch's OpOverload for a full name such as ``aten::add.Tensor`` or ``aten::relu``."""
    namespace, _, rest = op.partition("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")


@cache
def dtype_numbers() -> dict[int, np.dtype]:
    return {torch.ops.aten.promote_types(dt, dt): DTYPES[name] for name, dt in TORCH_DTYPES.items()}


def gives_dtype(op: str) -> bool:
    """Return whether an overload returns a dtype."""
    returns = schemas()[op].returns
    return bool(returns) and returns[0].type == "ScalarType"


def dtype_of_number(number: int) -> np.dtype:
    """Return the dtype for a ScalarType number, which Python gets from operators that return a dtype."""
    return dtype_numbers()[number]


def raw(t: torch.Tensor) -> np.ndarray:
    """Return the whole storage of a CPU tensor as an array of bytes that shares its memory."""
    storage = t.untyped_storage()
    if storage.nbytes() == 0:
        return np.empty(0, np.uint8)
    return torch.empty(0, dtype=torch.uint8).set_(storage).numpy()


def to_array(t: torch.Tensor) -> np.ndarray:
    """Return a copy of a tensor as an ndarray of the same dtype; lazy conjugation and negation are applied."""
    t = t.detach()
    if t.is_conj() or t.is_neg():
        t = t.resolve_conj().resolve_neg()
    dt = DTYPES[DTYPE_NAMES[t.dtype]]
    if t.numel() == 0:
        return np.empty(tuple(t.shape), dt)
    size = t.element_size()
    view = np.ndarray(tuple(t.shape), dt, raw(t), t.storage_offset() * size, tuple(s * size for s in t.stride()))
    return view.copy()


def to_tensor(a: Array, storages: list[torch.Tensor]) -> torch.Tensor:
    dt = TORCH_DTYPES[a.dtype]
    size = DTYPES[a.dtype].itemsize
    empty = torch.empty(0, dtype=dt)
    strides = tuple(s // size for s in a.strides)
    return empty.set_(storages[a.buffer].untyped_storage(), a.offset // size, a.shape, strides)


def window_of(memory: torch.Tensor, a: Array) -> torch.Tensor:
    """Return the window that ``a`` describes on a 1-d tensor of any device, using only ``view`` and ``as_strided``."""
    size = DTYPES[a.dtype].itemsize
    memory = memory if memory.dtype == TORCH_DTYPES[a.dtype] else memory.view(TORCH_DTYPES[a.dtype])
    return memory.as_strided(a.shape, tuple(s // size for s in a.strides), a.offset // size)


def ops_of(device: str, composite: bool = False) -> frozenset[str]:
    """Return the overloads for which the dispatcher has a kernel on a device type.

    They are the device's own kernels, and the functional and in-place forms that torch generates from its ``out=``
    kernels. With ``composite``, operators that torch composes of others on any device are included.
    """
    key = torch._C._dispatch_key_for_device(device)
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    found = set()
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith(("aten::", "prims::")) and name not in schemas():
            continue
        structured = has(name, "CompositeExplicitAutogradNonFunctional")
        made = structured and any(has(n, key) for n in siblings().get(name, ()) if is_out(n))
        any_device = composite and (has(name, "CompositeImplicitAutograd") or has(name, "CompositeExplicitAutograd"))
        if has(name, key) or made or any_device:
            found.add(name)
    return frozenset(found)


def thawed(case: Case) -> tuple[tuple, dict[str, Any]]:
    """Return a case's arguments as torch objects, in new memory."""
    storages = [torch.from_numpy(b).clone() for b in case.buffers]

    def leaf(x: Any) -> Any:
        if type(x) is Array:
            return to_tensor(x, storages)
        if type(x) is Named:
            return TorchDevice().named(x)
        return torch.Generator().manual_seed(x.seed) if type(x) is Seeded else x

    return map_tree(leaf, case.args), map_tree(leaf, case.kwargs)


def read(result: torch.Tensor) -> np.ndarray | tuple[str, str]:
    """Return a result as an array, or, if it cannot be judged, an error (class and message) that says why."""
    if result.layout is not torch.strided or result.dtype not in DTYPE_NAMES:
        return "OutOfContract", f"{result.layout} {result.dtype}"
    if min(result.shape, default=0) < 0:  # some of torch's operators return negative sizes where they should raise
        return "OutOfContract", f"a tensor of the sizes {list(result.shape)}"
    try:
        return to_array(result.cpu())
    except Exception as e:
        if result.device.type == "cpu":
            raise
        return error_of(e)  # a device that cannot return a result has failed, not the harness


class TorchDevice(Backend):
    """torch on one of its devices; ``cpu`` is the oracle."""

    strides = True

    def __init__(self, device: str = "cpu", composite: bool = False) -> None:
        self.device, self.name = device, f"torch-{device}"
        self.is_cpu = torch.device(device).type == "cpu"
        self.ops: Container[str] = AllOps() if self.is_cpu else ops_of(torch.device(device).type, composite)

    def named(self, leaf: Named) -> Any:
        if leaf.kind == "dtype":
            return TORCH_DTYPES[leaf.name]
        if leaf.kind == "layout":
            return LAYOUTS[leaf.name]
        return FORMATS[leaf.name] if leaf.kind == "memory_format" else torch.device(self.device)

    def put(self, a: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(a).to(self.device)

    def run(self, op: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        return overload_of(op)(*args, **kwargs)

    def set_default_dtype(self, name: str) -> None:
        torch.set_default_dtype(TORCH_DTYPES[name])

    def execute(self, case: Case) -> Seen:
        """Run ``case``, or return torch's recorded result if the case must not run in this process."""
        return case.known if case.known is not None and self.is_cpu else super().execute(case)

    def _execute(self, case: Case) -> Seen:
        # Clone the buffers: out= may resize the storages, which only works if torch owns their memory.
        storages = [torch.from_numpy(b).clone() for b in case.buffers] if self.is_cpu else self.moved(case)
        mine: list[torch.Tensor] = []
        generators: list[torch.Generator] = []

        def leaf(x: Any) -> Any:
            if type(x) is Array:
                mine.append(to_tensor(x, storages) if self.is_cpu else window_of(storages[x.buffer], x))
                return mine[-1]
            if type(x) is Named:
                return self.named(x)
            if type(x) is Seeded:
                generators.append(torch.Generator(self.device).manual_seed(x.seed))
                return generators[-1]
            return x

        torch.default_generator.manual_seed(case.seed)
        start = time.perf_counter()
        try:
            args, kwargs = map_tree(leaf, case.args), map_tree(leaf, case.kwargs)
            with torch.no_grad():
                out = self.run(case.op, args, kwargs)
        except Exception as e:
            return Seen(error=error_of(e), seconds=time.perf_counter() - start)
        if gives_dtype(case.op):
            out = dtype_of_number(out)
        seen = Seen(structure=structure_of(out), seconds=time.perf_counter() - start)
        held = resizable_buffers(case) | {i for i, b in enumerate(case.buffers) if b.size}
        places = {s.untyped_storage().data_ptr(): i for i, s in enumerate(storages) if i in held} if self.sees else {}
        for r in leaves(out):
            if not isinstance(r, torch.Tensor):
                seen.results.append(r)
                seen.alias.append(None)
                seen.strides += [None] * self.strides
                continue
            if r.layout is torch.strided and r._is_zerotensor():
                r = r.clone()  # a zero tensor has no memory to read
            found = read(r)
            if isinstance(found, tuple):
                seen.error = found
                return seen
            seen.results.append(found)
            if self.strides:
                seen.strides.append(tuple(r.stride()))
            seen.alias.append(self._place(r, places) if self.sees else ...)
        seen.after = [to_array(t.cpu()) for t in mine]
        if self.is_cpu:
            seen.buffers = [raw(s) for s in storages]
        if case.draws and self.is_cpu:
            states = [torch.get_rng_state(), *(g.get_state() for g in generators)]
            seen.random = [s.numpy().tobytes() for s in states]
        return seen

    def exempt(self, case: Case) -> str:
        if not self.is_cpu and (case.draws or any(type(x) is Seeded for x in leaves((case.args, case.kwargs)))):
            return "a device has random numbers of its own"
        return ""

    @cached_property
    def sees(self) -> bool:
        """Whether the device's tensors have data pointers."""
        try:
            return bool(torch.empty(1, device=self.device).untyped_storage().data_ptr())
        except Exception:
            return False

    def moved(self, case: Case) -> list[torch.Tensor]:
        """Return the case's memory on the device: each buffer as a 1-d tensor, in the dtype of its first array."""
        dtypes = {a.buffer: a.dtype for a in reversed(case.arrays())}
        found = []
        for i, b in enumerate(case.buffers):
            size = DTYPES[dtypes[i]].itemsize
            whole = np.frombuffer(b.tobytes(), np.uint8, b.size // size * size)
            dtype = TORCH_DTYPES[dtypes[i]]
            held = torch.from_numpy(whole.copy()).view(dtype) if whole.size else torch.empty(0, dtype=dtype)
            found.append(held.to(self.device))
        return found

    @staticmethod
    def _place(r: torch.Tensor, places: dict[int, int]) -> Any:
        if r.numel() == 0:
            return None
        buffer = places.get(r.untyped_storage().data_ptr())
        if buffer is None:
            return None
        if r.is_conj() or r.is_neg():
            return ...
        size = r.element_size()
        return (buffer, r.storage_offset() * size, tuple(s * size for s in r.stride()))


class AllOps:
    def __contains__(self, op: object) -> bool:
        return True


def device(name: str, composite: bool = False) -> TorchDevice:
    """Return the backend of a torch device, such as a PrivateUse1 device, by name: ``cpu``, ``cuda``, ``mydev``.

    The backend claims the overloads for which the dispatcher has a kernel: the device's own kernels, and the forms that
    torch generates from its ``out=`` kernels. Calls that use random numbers are not judged, because each device has its
    own generator. Import the package that registers the device first.

    Parameters
    ----------
    name : str
        As in ``torch.device(name)``.
    composite : bool, optional
        Whether the backend also claims operators that torch composes of others on any device.

    Returns
    -------
    TorchDevice
        A `Backend`; ``device("cpu")`` is the oracle.

    Raises
    ------
    ValueError
        torch has no such device here.
    """
    try:
        torch.empty(0, device=name)
    except Exception as e:
        words = str(e).partition("\n")[0]
        raise ValueError(f"torch has no device {name!r} here; import the package that registers it: {words}") from e
    return TorchDevice(name, composite)
