"""The return value of a recorded function, in a form that each program call can rebuild."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from torchnp.engine.tensor.handles import BaseHandleTensor
from torchnp.engine.tensor.pytree import mapped
from torchnp.engine.tensor.shape_inference import TensorSpec

_CONSTANTS = (int, float, complex, bool, str, bytes, type(None))


def version_of(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


class Made(NamedTuple):
    """Metadata of a handle on a result: class, spec, version, requires_grad, and whether it is an inference tensor."""

    kind: Any
    spec: TensorSpec
    version: int
    grad: bool
    inference: bool

    @classmethod
    def of(cls, t: Any) -> Made:
        """Return the metadata of a handle."""
        return cls(type(t), t._spec, version_of(t), t.requires_grad, t.is_inference())

    def again(self, remote: Any, inference: bool) -> Any:
        """Make a handle with this metadata on another object; ``inference`` says whether inference mode is on."""
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
    """A handle that a function returns.

    ``made`` is its index among the kept results. If that is -1, the handle existed before, and ``place`` is its
    position: arguments are counted first, then captured handles.
    """

    made: int
    place: int


def detached(result: Any) -> Any:
    """Detach a function's result from the autograd graph; leaves, such as parameters, stay as they are."""
    known: dict[int, Any] = {}

    def free(t: Any) -> Any:
        if not isinstance(t, BaseHandleTensor) or t.is_leaf:
            return t
        if id(t) not in known:
            known[id(t)] = t.detach()
        return known[id(t)]

    return mapped(free, result)


def template_of(result: Any, found: list[Any]) -> Any:
    """Replace a result's tensors and arrays with placeholders for `filled`, and append them to ``found``."""

    def placeholder(tensor: Any) -> torch.Tensor:
        found.append(tensor)
        return torch.empty(0)

    return mapped(placeholder, result)


def filled(template: Any, handles: list[Any]) -> Any:
    """Fill a template's placeholders with handles, in order."""
    following = iter(handles)
    return mapped(lambda placeholder: next(following), template)


def unreturnable(
    result: Any, found: list[Any], made: set[int], owner: Callable[[int], int], there: set[int], gradients: list[Any]
) -> str:
    """Return why a program could not return a result; "" if it could.

    Parameters
    ----------
    found : list
        The tensors in the result.
    made : set of int
        Ids of the objects that the function made.
    owner : callable
        Maps an object's id to that of the object whose memory it uses.
    there : set of int
        ``id()`` of the handles that existed before the call.
    gradients : list
        Gradients that the function has left on leaves.
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
        # In torch, a write into the view is a write into its base, but autograd would not see this for program results.
        if (of := owner(id_)) not in made:
            return "it returns a view of a handle that was there before: clone() it"
        if owners.setdefault(of, t) is not t:
            return "it returns two handles on the same memory: clone() one of them"
        if vars(t) or isinstance(t, torch.nn.Parameter):
            return "it returns a new parameter, or a handle with attributes of its own"
    return _constant(result)


def _constant(x: Any) -> str:
    """Return why the parts of a result other than handles would not be the same in each call; "" if they would."""
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
