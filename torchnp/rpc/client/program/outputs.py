"""What a function of handles returns, as each call of a program has to give it anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from torchnp.rpc.client.tensor.handles import BaseHandleTensor
from torchnp.rpc.client.tensor.pytree import mapped
from torchnp.rpc.client.tensor.shape_inference import TensorSpec

_CONSTANTS = (int, float, complex, bool, str, bytes, type(None))


def version_of(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


class Made(NamedTuple):
    """A handle on a result, as a function makes it: whether it requires a gradient, and is an inference tensor."""

    kind: Any
    spec: TensorSpec
    version: int
    grad: bool
    inference: bool

    @classmethod
    def of(cls, t: Any) -> Made:
        """What a handle is."""
        return cls(type(t), t._spec, version_of(t), t.requires_grad, t.is_inference())

    def again(self, remote: Any, inference: bool) -> Any:
        """Such a handle on another object; ``inference`` is whether the mode is on."""
        kind, spec, version, grad, own = self
        if own is inference:
            handle = kind._wrap(spec, remote)
        else:
            with torch.inference_mode(own):
                handle = kind._wrap(spec, remote)
        for _ in range(version):
            torch.autograd.graph.increment_version(handle)
        return handle.requires_grad_() if grad else handle


class Output(NamedTuple):
    """A handle that a function returns: which of the results that are kept it is, or else its place, of those before.

    Such places are the arguments' first, and then those of what the function uses beside them.
    """

    made: int
    place: int


def detached(result: Any) -> Any:
    """A function's result without what autograd keeps for it; leaves, as parameters are, stay what they are."""
    known: dict[int, Any] = {}

    def free(t: Any) -> Any:
        if not isinstance(t, BaseHandleTensor) or t.is_leaf:
            return t
        if id(t) not in known:
            known[id(t)] = t.detach()
        return known[id(t)]

    return mapped(free, result)


def template_of(result: Any, found: list[Any]) -> Any:
    """A nest like a result for `filled`; its tensors and arrays join ``found``."""

    def placeholder(tensor: Any) -> torch.Tensor:
        found.append(tensor)
        return torch.empty(0)

    return mapped(placeholder, result)


def filled(template: Any, handles: list[Any]) -> Any:
    """A template with handles in their order."""
    following = iter(handles)
    return mapped(lambda placeholder: next(following), template)


def unreturnable(
    result: Any, found: list[Any], made: set[int], owner: Callable[[int], int], there: set[int], gradients: list[Any]
) -> str:
    """What of a result a program could not give back.

    Parameters
    ----------
    found : list
        The tensors in it.
    made : set of int
        Ids of the function's results.
    owner : callable
        Gives the id of the object whose memory one is.
    there : set of int
        Addresses of handles from before.
    gradients : list
        That the function has left.
    """
    if any(g.requires_grad for g in gradients):
        return "it leaves gradients that have a graph (create_graph=True)"
    owners = {owner(g._object.id): g for g in gradients}
    for t in found:
        if not isinstance(t, BaseHandleTensor):
            return "it returns a plain tensor or an array, which would stay as it is"
        if t.is_conj() or t.is_neg():
            return "it returns a lazy conjugate or negative: resolve_conj(), resolve_neg()"
        id_ = t._object.id  # type: ignore[attr-defined]
        if id(t) in there or id_ not in made:
            continue
        # Writing into one of these would be seen by autograd as a write to the other, which a program's results are not.
        if (of := owner(id_)) not in made:
            return "it returns a view of a handle that was there before: clone() it"
        if owners.setdefault(of, t) is not t:
            return "it returns two handles on the same memory: clone() one of them"
        if vars(t) or isinstance(t, torch.nn.Parameter):
            return "it returns a new parameter, or a handle with attributes of its own"
    return _constant(result)


def _constant(x: Any) -> str:
    """What beside tensors of a result would not be the same in each call."""
    if isinstance(x, dict):
        if "step" in x and type(x["step"]) is torch.Tensor and not x["step"].dim():
            return "it returns a plain tensor or an array, which would stay as it is"
        return next((why for v in x.values() if (why := _constant(v))), "")
    if isinstance(x, (list, tuple)):
        return next((why for v in x if (why := _constant(v))), "")
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return _constant([getattr(x, field.name) for field in dataclasses.fields(x)])
    if isinstance(x, (torch.Tensor, *_CONSTANTS)):
        return ""
    return f"it returns a value of type {type(x).__name__}"
