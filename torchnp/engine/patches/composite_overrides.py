"""Overrides of composite operators that choose a fused CPU kernel, or access memory, before a handle is dispatched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils.dlpack
from torch.nn.attention import SDPBackend

from torchnp.engine.tensor.handles import BaseHandleTensor
from torchnp.engine.tensor.shape_inference import DYNAMIC
from torchnp.interop._private import is_recorded
from torchnp.interop.fused_flags import FASTPATH, FLASH, MATH, MKLDNN, Flag
from torchnp.rpc.exceptions import HandleError, ValueAccessError

# Operators that choose a fused kernel, with the flag that they check. An LSTM would become one opaque oneDNN operator,
# and attention one flash operator.
_ROUTES = {"lstm.input": MKLDNN, "scaled_dot_product_attention": FLASH}
aten = torch.ops.aten
# Composite operators that read an argument's memory, with words for the error message and the argument's position.
_READERS = {
    "tensor_split.tensor_indices_or_sections": ("reading the indices of tensor_split", 1),
    "lstm.data": ("reading the batch_sizes of a packed sequence", 1),
    "gru.data": ("reading the batch_sizes of a packed sequence", 1),
    "rnn_tanh.data": ("reading the batch_sizes of a packed sequence", 1),
    "rnn_relu.data": ("reading the batch_sizes of a packed sequence", 1),
    "istft": ("reading the window of istft, whose overlap it checks,", 4),
}
# Composite operators that write an intermediate into out= without resizing it, or write nothing for subclasses.
_INTO_OUT = (
    "matmul.out", "linalg_matmul.out", "linalg_matrix_rank.out", "linalg_matrix_rank.out_tol_tensor",
    "linalg_matrix_rank.atol_rtol_tensor_out", "linalg_matrix_rank.atol_rtol_float_out",
)  # fmt: skip


def _one_hot(x: Any, num_classes: int = -1) -> Any:
    if num_classes == -1:
        raise ValueAccessError(
            f"one_hot counts the classes by the largest value, and this tensor of shape {tuple(x.shape)} is {x._session.where}: say "
            "how many there are with num_classes=",
            DYNAMIC,
        )
    if num_classes < -1 and x.dtype == torch.int64:
        empty = "Can not infer total number of classes from empty tensor."
        raise RuntimeError("Class values must be smaller than num_classes." if x.numel() else empty)
    return NotImplemented


def _vander(x: torch.Tensor, N: int | None = None, increasing: bool = False) -> torch.Tensor:
    if x.dim() != 1 or (N is not None and N < 0):  # torch refuses these
        return torch.vander(torch.empty(x.shape), N)
    dtype, columns = torch.promote_types(x.dtype, torch.int64), len(x) if N is None else N
    if not columns:
        return x.new_empty(len(x), 0, dtype=dtype)
    column = x.to(dtype).unsqueeze(1)
    powers = torch.cat([torch.ones_like(column), column.expand(-1, columns - 1).cumprod(1)], 1)
    return powers if increasing else powers.flip(1)


def _pad_sequence(
    sequences: list[torch.Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> torch.Tensor:
    first = sequences[0]
    torch.full(
        (2, 2), padding_value, dtype=first.dtype
    )  # refuses a value that the dtype cannot hold; with one element torch would not
    metas = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta") for x in sequences]
    aten.pad_sequence.default(metas, batch_first, padding_value, padding_side)  # refuses arguments that do not match
    longest = max(len(x) for x in sequences)
    padded = []
    for x in sequences:
        x = x.to(first.dtype).expand(len(x), *first.shape[1:])
        more = [0, longest - len(x)] if padding_side == "right" else [longest - len(x), 0]
        padded.append(torch.constant_pad_nd(x, [0, 0] * (x.dim() - 1) + more, padding_value))
    return torch.stack(padded, 0 if batch_first else 1)


def _combinations(x: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    if x.dim() != 1 or x.dtype in (torch.uint16, torch.uint32, torch.uint64):  # torch itself refuses some
        torch.combinations(torch.empty(x.shape, dtype=x.dtype), r, with_replacement)
    return x[torch.combinations(torch.arange(len(x)), r, with_replacement)]


def _pack_padded_sequence(x: torch.Tensor, lengths: Any, batch_first: bool) -> Any:
    """Pack with an index of the steps, which is computed from the plain lengths."""
    if isinstance(lengths, BaseHandleTensor) or x.dim() < 2 or not x.numel():
        return NotImplemented
    steps = torch.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2])
    index, batch_sizes = aten._pack_padded_sequence(steps, lengths, batch_first)
    return x.flatten(0, 1).index_select(0, index), batch_sizes


def _pad_packed_sequence(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding_value: float, total_length: int
) -> Any:
    """Unpack with an index of the rows and a mask of the padding, which are computed from the plain batch sizes."""
    if isinstance(batch_sizes, BaseHandleTensor):
        return NotImplemented
    rows = torch.arange(len(data))
    index, lengths = aten._pad_packed_sequence(rows, batch_sizes, False, -1, total_length)
    out = data.index_select(0, index.clamp(min=0).flatten()).unflatten(0, index.shape)
    out = out.masked_fill((index < 0).reshape(*index.shape, *[1] * (data.dim() - 1)), padding_value)
    return out.transpose(0, 1) if batch_first else out, lengths


def _cross_entropy_loss(x: Any, target: torch.Tensor, weight: torch.Tensor | None = None, *args: Any, **kw: Any) -> Any:
    """Send a plain weight to the engine, because torch otherwise selects by a mask when labels are smoothed."""
    if weight is None or isinstance(weight, BaseHandleTensor):
        return NotImplemented
    return aten.cross_entropy_loss(x, target, x._session.send(weight), *args, **kw)


# Composite operators that write into a plain tensor that they make, or read values for a shape that is known anyway.
_WRITTEN_ANEW: dict[str, Callable[..., Any]] = {
    "one_hot": _one_hot,
    "vander": _vander,
    "pad_sequence": _pad_sequence,
    "combinations": _combinations,
    "_pack_padded_sequence": _pack_padded_sequence,
    "_pad_packed_sequence": _pad_packed_sequence,
    "cross_entropy_loss": _cross_entropy_loss,
}
# Tensor subclasses have this dispatch key. It is above autograd's key, where torch has not yet chosen a kernel.
_KEY = torch.DispatchKey.PythonTLSSnapshot
_library: list[torch.library.Library] = []


def take_composite_routes() -> None:
    """Install the overrides, once per process; calls without handles are redispatched unchanged."""
    if not _library:
        library = torch.library.Library("aten", "IMPL")
        for name, flag in _ROUTES.items():
            library.impl(name, _routed(name, flag), _KEY.name, with_keyset=True)
        for name, (what, place) in _READERS.items():
            library.impl(name, _reading(name, what, place), _KEY.name, with_keyset=True)
        for name, way in _WRITTEN_ANEW.items():
            library.impl(name, _override(name, way), _KEY.name, with_keyset=True)
        for name in _INTO_OUT:
            library.impl(name, _into_out(name), _KEY.name, with_keyset=True)
        library.impl("_has_compatible_shallow_copy_type", _may_become, _KEY.name, with_keyset=True)
        _library.append(library)
        for module in (torch, torch.utils.dlpack):
            module.to_dlpack = _to_dlpack  # type: ignore[attr-defined]


_theirs = torch.utils.dlpack.to_dlpack


def _to_dlpack(tensor: Any) -> Any:
    """Refuse handles, then call torch's C function, which does not dispatch to subclasses."""
    if isinstance(tensor, BaseHandleTensor):
        tensor._no_values("to_dlpack")
    return _theirs(tensor)


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _reading(name: str, what: str, place: int) -> Callable[..., Any]:
    func = _overload(name)

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        given = args[place] if place < len(args) else None
        if isinstance(given, BaseHandleTensor):
            given._no_values(what)
        return func.redispatch(keys.remove(_KEY), *args, **kwargs)

    return run


def _routed(name: str, flag: Flag) -> Callable[..., Any]:
    func = _overload(name)

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        below = keys.remove(_KEY)
        flat = [x for a in (*args, *kwargs.values()) for x in (a if isinstance(a, (list, tuple)) else (a,))]
        if not any(isinstance(x, BaseHandleTensor) for x in flat):
            return func.redispatch(below, *args, **kwargs)
        enabled, by_steps = flag.read(), MATH.read()
        flag.write(False)
        MATH.write(True)  # a program may have disabled it in favor of the fused operator, which is disabled here
        try:
            result = func.redispatch(below, *args, **kwargs)
        finally:
            flag.write(enabled)
            MATH.write(by_steps)
        return _laid_out_as_flash(result, args, kwargs) if flag is FLASH else result

    return run


def _laid_out_as_flash(result: torch.Tensor, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    """Lay out an attention result in the query's dimension order, if torch would have chosen the flash operator."""
    query = kwargs["query"] if "query" in kwargs else args[0]
    wanted = torch.empty_like(torch.empty_strided(query.shape, query.stride(), device="meta")).stride()
    if wanted == result.stride() or is_recorded():
        return result

    def stand_in(a: Any) -> Any:
        if not isinstance(a, torch.Tensor):
            return a
        return torch.empty_strided(a.shape, a.stride(), dtype=a.dtype).requires_grad_(a.requires_grad)

    choice = aten._fused_sdp_choice.default(*map(stand_in, args), **{k: stand_in(a) for k, a in kwargs.items()})
    if choice != SDPBackend.FLASH_ATTENTION.value:
        return result
    order = sorted(range(result.dim()), key=lambda d: -wanted[d])
    return result.permute(order).contiguous().permute([order.index(d) for d in range(result.dim())])


def _override(name: str, way: Callable[..., Any]) -> Callable[..., Any]:
    """Implement an operator with ``way`` for handles; for plain tensors and NotImplemented, run the operator itself."""
    func = _overload(name)

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        first = args[0][0] if isinstance(args[0], (list, tuple)) else args[0]
        made = way(*args, **kwargs) if isinstance(first, BaseHandleTensor) else NotImplemented
        return func.redispatch(keys.remove(_KEY), *args, **kwargs) if made is NotImplemented else made

    return run


def _into_out(name: str) -> Callable[..., Any]:
    """Run the operator without ``out=``, then copy the result if its dtype and shape match ``out``."""
    func = _overload(name)

    def run(keys: Any, *args: Any, out: Any, **kwargs: Any) -> Any:
        below = keys.remove(_KEY)
        if not isinstance(out, BaseHandleTensor):
            return func.redispatch(below, *args, out=out, **kwargs)
        result = getattr(aten, name.partition(".")[0])(*args, **kwargs)
        if name.startswith("linalg_matrix_rank"):
            torch.linalg.matrix_rank(torch.ones(1, 1), out=torch.zeros((), dtype=out.dtype))  # it refuses some dtypes
            result = result.to(out.dtype)
        if result.dtype != out.dtype or (result.shape != out.shape and out.numel()):
            return func.redispatch(below, *args, out=out, **kwargs)
        return aten.lift.out(result, out=out) if result.shape != out.shape else out.copy_(result)

    return run


def _may_become(keys: Any, plain: torch.Tensor, new: torch.Tensor) -> bool:
    """Check ``plain.data = new``: refuse a handle, because it has no memory, and reading ``plain`` would crash."""
    if isinstance(new, BaseHandleTensor) and not isinstance(plain, BaseHandleTensor):
        raise HandleError(
            f"the .data of a plain tensor cannot be a handle, whose values are {new._session.where}: give it "
            "what .publish() gives, or move the module with session.module(model)"
        )
    return torch.ops.aten._has_compatible_shallow_copy_type.default.redispatch(keys.remove(_KEY), plain, new)


def without_fast_path(module: torch.nn.Module) -> None:
    """Disable torch's fused transformer operators in one module's forward; other modules keep them."""
    enabled: list[bool] = []

    def before(module: torch.nn.Module, args: Any) -> None:
        enabled.append(FASTPATH.read())
        FASTPATH.write(False)

    def after(module: torch.nn.Module, args: Any, out: Any) -> None:
        FASTPATH.write(enabled.pop())

    module.register_forward_pre_hook(before)
    module.register_forward_hook(after, always_call=True)
