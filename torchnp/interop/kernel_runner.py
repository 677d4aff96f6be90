"""Run one torch overload with one NumPy kernel on shared memory, in a way that is derived once from torch's schema.

`Runner.run_of` turns an overload and its kernel into a function of the call's arguments. A runner works on the tensors
of one device, whose memory it accesses through `Memory`. A kernel's results become tensors in one of four ways. New
memory is shared. A view is rebuilt as a view on its base's storage, because autograd would not recognize a tensor that
merely shares the memory. An in-place or ``out=`` op returns the tensors that were passed. For an op that only changes
sizes and strides, these are set on the tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch

from torchnp.core.libraries import check_registered
from torchnp.interop import convert
from torchnp.interop._private import OpOverload, is_composite, is_zero, schema_of
from torchnp.interop.convert import DTYPE_CODE, NUMPY_DTYPE, PLAIN_TENSORS
from torchnp.interop.out_arrays import OutArray, counts_from_storage, on_storage, physical, storage_of

ndarray = np.ndarray
Tensor = torch.Tensor
Run = Callable[[tuple, dict[str, Any]], Any]


class OnMeta(Exception):
    """Raised when an argument is on the meta device, where there is nothing to compute."""


class OnSparse(Exception):
    """Raised when an argument or result is sparse COO: torch keeps these tensors and computes with them."""


class Foreign(Exception):
    """Raised when an argument cannot be an array in CPU memory; the message says why."""


class Memory(Protocol):
    """How a device's tensors share memory with NumPy arrays; for the CPU, `torchnp.interop.convert` implements it."""

    DEVICE: str
    """The device type, as in ``torch.device.type``."""

    SPOKEN: str
    """The name of the device in error messages."""

    def check_index(self, device: torch.device) -> Any:
        """Raise RuntimeError if there is no device with this index."""
        ...

    def share(self, tensor: Tensor) -> ndarray:
        """Return the memory of a plain tensor; this is the fast path of `to_numpy`.

        Raise TypeError or RuntimeError for a tensor that needs `to_numpy`.
        """
        ...

    def to_numpy(self, tensor: Tensor) -> ndarray:
        """Return the memory of any tensor, resolved if necessary; raise TypeError or RuntimeError if there is none."""
        ...

    def wrap(self, array: ndarray) -> Tensor:
        """Return a tensor on a writable array's memory; strides must not be negative. The fast path of `to_torch`."""
        ...

    def to_torch(self, array: ndarray) -> Tensor:
        """Return a tensor of any array, as `wrap` does; memory that cannot be shared is copied."""
        ...

    def address(self, array: ndarray) -> int:
        """Return the address of a non-empty array."""
        ...


# ---------------------------------------------------------------- arguments


def _dtype(dtype: torch.dtype) -> np.dtype:
    found = NUMPY_DTYPE.get(dtype)
    if found is None:
        raise Foreign(f"no NumPy or ml_dtypes type for {dtype}")
    return found


def _layout(layout: torch.layout) -> str:
    if layout != torch.strided:
        raise Foreign(f"layout {layout} has no array form")
    return "strided"


class _Arguments(dict[type, Callable[[Any], Any] | None]):
    """A mapping from an argument's type to its conversion for the kernel; None passes the argument unchanged."""

    def __init__(self, tensor: Callable[[Any], Any], sequence: Callable[[Any], Any], device: Callable[[Any], Any]):
        super().__init__(
            {
                list: sequence,
                tuple: sequence,
                torch.dtype: _dtype,
                torch.device: device,
                torch.layout: _layout,
                torch.memory_format: lambda form: str(form).removeprefix("torch."),
            }
        )
        self.update(dict.fromkeys(PLAIN_TENSORS, tensor))
        self.tensor, self.sequence = tensor, sequence

    def __missing__(self, kind: type) -> Callable[[Any], Any] | None:
        found: Callable[[Any], Any] | None = None
        if issubclass(kind, Tensor):
            found = self.tensor
        elif issubclass(kind, (list, tuple)):
            found = self.sequence
        self[kind] = found
        return found


# ---------------------------------------------------------------- results


def _number(result: Any) -> Any:
    if isinstance(result, np.dtype):
        return DTYPE_CODE[result]
    return result.item() if isinstance(result, (ndarray, np.generic)) else result


# Ops whose results share the argument's memory although the schema does not say so: autograd treats the results as new
# tensors.
_UNMARKED_VIEWS = frozenset(
    f"aten::{name}"
    for name in (
        "_unsafe_view",
        "unsafe_split.Tensor",
        "unsafe_split_with_sizes",
        "unsafe_chunk",
        "_reshape_alias",
        "lift",
    )
)


# Ops that resize their written arguments to the result's shape.
_RESIZED = frozenset(
    {"aten::addbmm_", "aten::_fused_moving_avg_obs_fq_helper", "aten::fused_moving_avg_obs_fake_quant"}
)


def _is_tensor(kind: Any) -> bool:
    return "Tensor" in str(kind)


class Runner:
    """Build functions that run overloads by kernels, on the memory of one device.

    Parameters
    ----------
    memory : Memory
        Gives access to the device's memory.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._share, self._wrap = memory.share, memory.wrap
        self._argument = _Arguments(self._tensor, self._sequence, self._device)

    def run_of(self, func: OpOverload, kernel: Callable[..., Any]) -> Run:
        """Return the function ``run(args, kwargs)`` that computes a torch overload by a kernel.

        Parameters
        ----------
        func : OpOverload
            The overload. The alias marks of its schema decide how results are returned.
        kernel : callable
            A function that takes arrays, with the schema's arguments.
        """
        schema = schema_of(func)
        check_registered(func.name(), str(schema))
        # The errors of view.dtype name the storage offset.
        from_storage = counts_from_storage(schema) or func.name() == "aten::view.dtype"
        runner = _OnStorage(self.memory) if from_storage else self
        return runner._made(func, kernel, schema)

    def _made(self, func: OpOverload, kernel: Callable[..., Any], schema: Any) -> Run:
        name = func.name()
        marks = [a.alias_info for a in schema.arguments]
        written = [i for i, mark in enumerate(marks) if mark is not None and mark.is_write]
        if name in ("aten::as_strided", "prims::as_strided"):  # the prim's schema marks its view as written
            return self._as_strided(kernel)
        if torch.Tag.inplace_view in func.tags:
            return self._change_strides(name, kernel)
        if written:
            if written == [0] and len(schema.returns) == 1 and str(schema.arguments[0].type) == "Tensor":
                return self._write_self(kernel, resizes=name in _RESIZED)
            return self._write_arguments(schema, kernel, written, resizes=any(a.is_out for a in schema.arguments))
        viewed = [i for i, mark in enumerate(marks) if mark is not None]
        if viewed or name in _UNMARKED_VIEWS:
            certain = name not in _UNMARKED_VIEWS and not name.startswith("prims::") and not is_composite(func)
            return self._view(func, kernel, viewed[0] if viewed else 0, certain)
        return self._new(schema, kernel)

    # ------------------------------------------------------------ arguments

    def _tensor(self, tensor: Tensor) -> ndarray:
        try:
            return self._share(tensor)
        except (TypeError, RuntimeError):
            if tensor.is_meta:
                raise OnMeta from None
            if tensor.layout is torch.sparse_coo:
                raise OnSparse from None
            try:
                return self.memory.to_numpy(tensor)
            except (TypeError, RuntimeError) as error:
                raise Foreign(str(error).removeprefix("to_numpy: ")) from None

    def _sequence(self, values: list | tuple) -> list:
        return [x if (turn := self._argument[type(x)]) is None else turn(x) for x in values]

    def _keywords(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return kwargs and {k: x if (turn := self._argument[type(x)]) is None else turn(x) for k, x in kwargs.items()}

    def _device(self, device: torch.device) -> str:
        if device.type == "meta":
            raise OnMeta
        if device.type != self.memory.DEVICE:
            raise Foreign(f"device {device} is not {self.memory.SPOKEN}")
        self.memory.check_index(device)
        return "cpu"

    # ------------------------------------------------------------ results

    def _fresh(self, result: Any) -> Any:
        """Return new memory as a tensor, or as a list of tensors."""
        if type(result) is ndarray:
            if not result.flags.writeable or not all(s >= 0 for s in result.strides):
                result = result.copy()
            return self._wrap(result)
        if isinstance(result, (list, tuple)):
            return [self._fresh(r) for r in result]
        return result if result is None else self.memory.to_torch(np.asarray(result))

    def rebase(self, base: Tensor, array: ndarray, view: ndarray, *, certain: bool = True) -> Tensor:
        """Return the tensor on the storage of ``base`` that covers the memory of ``view``, a NumPy view of ``array``.

        With ``certain=False``, ``view`` might not be a view of ``array``; if it is not, it becomes a new tensor on its
        own memory.
        """
        if view is array and not certain:
            return base  # contiguous(), to() and similar ops return their argument if there is nothing to do
        itemsize = view.itemsize
        strides = tuple([s // itemsize for s in view.strides])
        if view.size and array.size:
            start = self.memory.address(view) - base.untyped_storage().data_ptr()
            if not certain and not 0 <= start < base.untyped_storage().nbytes():
                return self._fresh(view)
        elif not certain and view.dtype != array.dtype:
            return self._fresh(view)
        else:  # neither array has an address to compare
            start = int(base.storage_offset()) * array.itemsize
        if view.dtype == array.dtype:
            return torch.as_strided(base, view.shape, strides, start // itemsize)
        # Creating an empty complex32 tensor would make torch warn; a view does not.
        retyped = torch.empty(0, dtype=torch.uint8, device=base.device).view(convert.TORCH_DTYPE[view.dtype]).detach()
        return retyped.set_(base.untyped_storage(), start // itemsize, view.shape, strides)

    def _out(self, tensor: Tensor) -> OutArray:
        # torch cannot grow memory that it shares with NumPy, so the memory of an empty out= is not shared.
        array = self._tensor(tensor if tensor.numel() else torch.empty_like(tensor))
        out = array.view(OutArray)
        out.tensor, out.again = tensor, self._tensor
        return out

    def _store(self, tensor: Tensor, array: ndarray) -> None:
        """Copy an array back to its tensor, if it is a copy because of a conjugate or negative bit."""
        tensor.copy_(self._wrap(array))

    # ------------------------------------------------------------ one method per kind of result

    def _new(self, schema: Any, kernel: Callable[..., Any]) -> Run:
        kinds = [_is_tensor(r.type) for r in schema.returns]
        argument, keywords, wrap, fresh = self._argument, self._keywords, self._wrap, self._fresh

        if kinds == [True]:

            def run(args: tuple, kwargs: dict[str, Any]) -> Any:
                out = kernel(
                    *[x if (turn := argument[type(x)]) is None else turn(x) for x in args],
                    **keywords(kwargs),
                )
                if type(out) is ndarray and out.flags.c_contiguous and out.flags.writeable:
                    return wrap(out)
                return fresh(out)

            return run

        makers = [fresh if is_tensor else _number for is_tensor in kinds]

        def run_several(args: tuple, kwargs: dict[str, Any]) -> Any:
            out = kernel(*self._sequence(args), **keywords(kwargs))
            if len(makers) == 1:
                return makers[0](out)
            return tuple([make(x) for make, x in zip(makers, out, strict=True)]) if makers else None

        return run_several

    def _view(self, func: OpOverload, kernel: Callable[..., Any], position: int, certain: bool) -> Run:
        def run(args: tuple, kwargs: dict[str, Any]) -> Any:
            base = args[position]
            if is_zero(base):  # a zero tensor has no memory to share
                base = base.clone()
                args = (*args[:position], base, *args[position + 1 :])
            converted = self._sequence(args)
            marked = base.is_conj() or base.is_neg()
            if marked:
                converted[position] = self._tensor(physical(base))
            array = converted[position]
            out = kernel(*converted, **self._keywords(kwargs))
            if type(out) is not ndarray:
                return [self.rebase(base, array, view, certain=certain) for view in out]
            wider = out.itemsize // array.itemsize
            if out.dtype != array.dtype and (marked or (wider > 1 and base.storage_offset() % wider)):
                return func(*args, **kwargs)  # makes torch raise its own error
            return self.rebase(base, array, out, certain=certain)

        return run

    def _strided(self, kernel: Callable[..., Any]) -> Callable[..., tuple[ndarray, ndarray]]:
        """Return a function that runs ``as_strided``, which counts from the start of the storage, not of the tensor."""

        def run(base: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> tuple[ndarray, ndarray]:
            flat = storage_of(physical(base), self._tensor)
            return flat, kernel(flat, size, stride, base.storage_offset() if storage_offset is None else storage_offset)

        return run

    def _as_strided(self, kernel: Callable[..., Any]) -> Run:
        strided = self._strided(kernel)

        def run(args: tuple, kwargs: dict[str, Any]) -> Tensor:
            flat, view = strided(*args, **kwargs)
            if not view.size:
                return torch.as_strided(*args, **kwargs)
            return self.rebase(args[0], flat, view)

        return run

    def _change_strides(self, name: str, kernel: Callable[..., Any]) -> Run:
        strided = self._strided(kernel) if name == "aten::as_strided_" else None

        def run(args: tuple, kwargs: dict[str, Any]) -> Tensor:
            tensor = args[0]
            if strided is not None:
                array, view = strided(*args, **kwargs)
            else:
                array = self._tensor(physical(tensor))
                view = kernel(array, *self._sequence(args[1:]), **self._keywords(kwargs))
            target = self.rebase(physical(tensor), array, view)
            return tensor.as_strided_(target.shape, target.stride(), target.storage_offset())

        return run

    def _write_self(self, kernel: Callable[..., Any], *, resizes: bool) -> Run:
        argument, keywords = self._argument, self._keywords

        def run(args: tuple, kwargs: dict[str, Any]) -> Tensor:
            tensor = args[0]
            converted = [x if (turn := argument[type(x)]) is None else turn(x) for x in args]
            if resizes:
                converted[0] = self._out(tensor)
            kernel(*converted, **keywords(kwargs))
            if tensor.is_neg() or tensor.is_conj():
                self._store(tensor, converted[0])
            return tensor

        return run

    def _outs(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._out(t) for t in value]
        return None if value is None else self._out(value)

    def _write_arguments(self, schema: Any, kernel: Callable[..., Any], written: list[int], *, resizes: bool) -> Run:
        """Run ``out=`` ops, in-place ops on lists, and ops that write running statistics.

        With ``resizes`` the kernel may resize its ``out=`` arguments.
        """
        names = [a.name for a in schema.arguments]
        out_names = {a.name for a in schema.arguments if a.is_out}
        places = {mark: i for i in written for mark in schema.arguments[i].alias_info.before_set}
        # For each result: the position of the argument that is returned as it, or None; and its conversion.
        returns: list[tuple[int | None, Callable[[Any], Any]]] = [
            (places[next(iter(r.alias_info.before_set))], self._fresh)
            if r.alias_info is not None and r.alias_info.is_write
            else (None, self._fresh if _is_tensor(r.type) else _number)
            for r in schema.returns
        ]

        def run(args: tuple, kwargs: dict[str, Any]) -> Any:
            converted = self._sequence(args)
            for i in written if schema.name in _RESIZED else ():
                converted[i] = self._out(args[i])
            given = {k: self._outs(v) if k in out_names else v for k, v in kwargs.items()} if resizes else kwargs
            keywords = self._keywords(given)
            out = kernel(*converted, **keywords)
            for i in written:
                passed = args[i] if i < len(args) else kwargs.get(names[i])
                arrays = converted[i] if i < len(args) else keywords.get(names[i])
                if not isinstance(passed, (list, tuple)):
                    passed, arrays = [passed], [arrays]
                for tensor, array in zip(passed, arrays or [], strict=True):
                    if tensor is not None and (tensor.is_neg() or tensor.is_conj()):
                        target = getattr(array, "target", None)
                        self._store(tensor, array if target is None else target)
            if not returns:
                return None
            if len(returns) == 1:
                out = (out,)
            results = []
            for (place, make), x in zip(returns, out, strict=True):
                if place is None:
                    results.append(make(x))
                else:
                    results.append(args[place] if place < len(args) else kwargs[names[place]])
            return results[0] if len(results) == 1 else tuple(results)

        return run


class _OnStorage(Runner):
    """Runner for operators that count from the start of a tensor's storage."""

    def _tensor(self, tensor: Tensor) -> ndarray:
        return on_storage(tensor, super()._tensor)
