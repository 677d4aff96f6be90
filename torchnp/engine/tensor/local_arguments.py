"""Wire forms and checks of plain values that an operator takes together with handles."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from torchnp.engine.tensor.call_sites import file_of_torch
from torchnp.engine.tensor.overload_info import OverloadInfo
from torchnp.engine.tensor.unsupported import way_round
from torchnp.rpc import wire
from torchnp.rpc.exceptions import HandleError

# Reasons for a refusal.
NOT_SENT = "sparse, quantized and nested tensors, and those of other devices, are not sent"
TOO_LONG = "a list or a string is longer than the wire takes"
PLAIN_WRITTEN = "a plain tensor is not written"

WORDS = {
    torch.strided: "strided",
    torch.contiguous_format: "contiguous_format",
    torch.preserve_format: "preserve_format",
    torch.channels_last: "channels_last",
    torch.channels_last_3d: "channels_last_3d",
}


def number(a: Any) -> Any:
    return wire.Complex(a.real, a.imag) if isinstance(a, complex) else a


_PROBES = {
    torch.float64: torch.zeros((), dtype=torch.float32),
    torch.int64: torch.zeros((), dtype=torch.int8),
    torch.complex128: torch.zeros((), dtype=torch.complex64),
}


def wrapped_number(a: torch.Tensor) -> Any:
    """Return the Python number that torch has wrapped in a tensor, or None.

    torch does not mark such tensors, but only a wrapped number is weaker than another 0-d tensor in dtype promotion.
    """
    probe = _PROBES.get(a.dtype)
    if probe is None or a.dim() or type(a) is not torch.Tensor or torch.result_type(a, probe) == a.dtype:
        return None
    return a.item()


def check_plain(name: str, a: torch.Tensor) -> None:
    if type(a) not in (torch.Tensor, torch.nn.Parameter):
        raise HandleError(
            f"{name}: a {type(a).__name__} and a handle cannot meet in one operator", "a tensor of another class"
        )
    if what := not_sent(a):
        raise HandleError(f"{name}: only dense CPU tensors can meet a handle, this one is {what}", NOT_SENT)


def not_sent(a: torch.Tensor) -> str:
    """Return why a tensor cannot be sent, with a workaround if there is one; "" if it can be sent."""
    if a.is_quantized:
        return f"quantized ({a.dtype}): send its dequantize()"
    if a.is_nested:
        return "nested: send the tensors of its unbind()"
    if a.layout is not torch.strided:
        return f"of layout {a.layout}: send its to_dense()"
    if a.device.type != "cpu":
        return f"on the device {a.device}" + (", without values" if a.is_meta else ": send its cpu()")
    return ""


def device_is_cpu(device: Any) -> bool:
    return torch.device(device).type == "cpu"


def asks_for_shape(plan: OverloadInfo, kwargs: dict[str, Any]) -> bool:
    """Return whether a copy goes to the meta device, as forward-mode AD requests; refuse devices other than the CPU."""
    device = kwargs.get("device")
    if device is None or device_is_cpu(device):
        return False
    if plan.base == "_to_copy" and torch.device(device).type == "meta":
        return True
    raise HandleError(
        f"{plan.name}: a handle's results stay where it is, and there is no device {str(device)!r}",
        "a server has no devices but its CPU",
    )


def check_length(name: str, n: int) -> None:
    if n > wire.MAX_ITEMS:
        raise HandleError(
            f"{name}: a list of {n:,} entries is longer than the {wire.MAX_ITEMS:,} of one operator", TOO_LONG
        )


def refuse_plain(name: str, tensor: torch.Tensor, session: Any) -> NoReturn:
    """Refuse a write into a plain tensor, because the values to write are elsewhere."""
    if (file := file_of_torch()).startswith("amp/"):
        raise HandleError(
            f"{name} would write into a plain tensor what is {session.where}. {way_round(file)}",
            PLAIN_WRITTEN,
        )
    text = (
        f"{name} would write into a plain tensor of shape {tuple(tensor.shape)} what is {session.where}: "
        "publish() the handle first, or move the module with session.module(model), so that its parameters and buffers are "
        "handles too and optimizers run there"
    )
    if file.startswith("optim/"):
        text += ". Their state is sent too before it is loaded: optimizer.load_state_dict(session.send(state))"
    raise HandleError(text, PLAIN_WRITTEN)


def lowered(name: str, a: Any, loose: bool) -> tuple[Any, Any]:
    """Return (part of the cache key, wire argument) for an argument that is not a tensor."""
    if isinstance(a, str) and len(a) > wire.MAX_NAME:
        raise HandleError(f"{name}: a string of {len(a)} characters is longer than {wire.MAX_NAME}", TOO_LONG)
    if a is None or isinstance(a, (bool, str)):
        return a, a
    if isinstance(a, (int, float, complex)):
        return (type(a), None if loose else a), number(a)
    if isinstance(a, torch.dtype):
        return a, wire.Dtype(str(a).removeprefix("torch."))
    if isinstance(a, torch.device):
        return a, "cpu"
    if a in WORDS:
        return a, WORDS[a]
    if isinstance(a, torch.layout):
        raise HandleError(
            f"{name}: there are no handles on tensors of the layout {a}: use what is dense, as nn.Embedding(..., sparse=False)",
            NOT_SENT,
        )
    raise HandleError(
        f"{name}: an argument of type {type(a).__name__} cannot be an argument of a handle's operator",
        "an argument that does not travel",
    )
