"""Methods that a handle refuses because it has no local values.

Each error says where the values are, and gives the shape and a workaround.
"""

from __future__ import annotations

import copy
import operator
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch

from torchnp.engine.tensor.call_sites import file_of_torch
from torchnp.interop._private import leave_to_python, of_comparison
from torchnp.rpc.exceptions import HandleError, ValueAccessError

if TYPE_CHECKING:
    from torchnp.engine.tensor.interfaces import EngineProtocol


# The Python operators that NumPy's scalars compute with ufuncs.
_OPERATORS: dict[np.ufunc, Any] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.true_divide: operator.truediv,
    np.floor_divide: operator.floordiv, np.remainder: operator.mod, np.power: operator.pow, np.matmul: operator.matmul,
    np.bitwise_and: operator.and_, np.bitwise_or: operator.or_, np.bitwise_xor: operator.xor,
    np.left_shift: operator.lshift, np.right_shift: operator.rshift, np.less: operator.lt, np.less_equal: operator.le,
    np.greater: operator.gt, np.greater_equal: operator.ge, np.equal: operator.eq, np.not_equal: operator.ne,
}  # fmt: skip


class NoValues:
    """Mixin that precedes `torch.Tensor` in handles; it refuses or replaces methods that would misbehave on handles."""

    __slots__ = ()

    shape: torch.Size
    _session: EngineProtocol
    _spec: Any
    _object: Any

    def _no_values(self, what: str, function: str = "") -> NoReturn:
        # If a handle is the left operand of an array, NumPy also asks for its values, without mentioning the array.
        also = f"; to combine it with a NumPy array, {_OPERANDS}" if what == _CONVERSION else ""
        text = (
            f"{what} needs values, and this tensor of shape {tuple(self.shape)} is {self._session.where}: "
            f"call .publish() to get them as a plain tensor{also}"
        )
        if function:
            text += f". tnp.{function.removeprefix('np.')} (import torchnp.np as tnp) has NumPy's meaning there"
        file = file_of_torch()
        if way := way_round(file):
            text += f". {way}"
        elif what == ".item()" and torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled():
            text += (
                ". Anomaly detection looks for NaN in each gradient: use torch.autograd.detect_anomaly(check_nan=False)"
            )
        elif what == ".item()" and is_count(self):
            text += ". As an index of x, where x[i] asks for it: x.index_select(dim, i), or x[i] of a handle x outside of torch.func"
        raise of_comparison(ValueAccessError, text) if file == "testing/_comparison.py" else ValueAccessError(text)

    def __array_function__(self, func: Any, types: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Refuse NumPy functions (``np.sum(handle)``), because NumPy would call torch's methods with its own arguments.

        Within `torchnp.np.semantics` they run on the server.
        """
        ran = _by_torchnp_np(func, args, kwargs)
        if ran is not NotImplemented:
            return ran
        from torchnp.lookup.public_name import public_name
        from torchnp.lookup.torch_counterpart import in_torch

        name = public_name(func).replace("numpy.", "np.", 1) or f"np.{func.__name__}"
        way, words = in_torch(func)
        use = f"use {way}, which runs there" if way else "use functions of torch's, which run there"
        if words:
            use += f"; {words}" if way else f": {words}"
        from torchnp.np import table

        ours = name.removeprefix("np.")
        same = f". Or tnp.{ours} (import torchnp.np as tnp), which means the same there" if ours in table else ""
        raise TypeError(
            f"{name} takes arrays, and this tensor of shape {tuple(self.shape)} is {self._session.where}: "
            f"{use.rstrip('.')}{same}. Or give {name} what .publish() gives; torchnp explain {name} tells more"
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Refuse ufuncs, and arrays together with handles, except within `torchnp.np.semantics`."""
        ran = _by_torchnp_np(ufunc, inputs, kwargs, method)
        if ran is not NotImplemented:
            return ran
        if method == "__call__" and isinstance(inputs[0], np.generic) and ufunc in _OPERATORS and not kwargs:
            return _OPERATORS[ufunc](inputs[0].item(), inputs[1])  # np.float32(2) * x becomes 2.0 * x
        if any(isinstance(x, np.ndarray) for x in inputs):
            raise TypeError(f"a NumPy array and a handle cannot be combined: {_OPERANDS}")
        return self._no_values(_CONVERSION, f"np.{ufunc.__name__}")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise HandleError(
            f"a handle cannot be saved or pickled: this tensor of shape {tuple(self.shape)} is "
            f"{self._session.where}. Save what .publish() gives"
        )

    def __copy__(self) -> Any:
        """Return another handle on the same object for ``copy.copy``, as for any tensor."""
        handle: Any = self
        return handle.detach().requires_grad_(handle.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return a handle on a copy that the engine makes, for ``copy.deepcopy`` of a leaf, as for any tensor."""
        if id(self) in memo:
            return memo[id(self)]
        handle: Any = self
        if not handle.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol"
            )
        with torch.no_grad():
            copied = handle.clone().requires_grad_(handle.requires_grad)
        memo[id(self)] = copied
        own = {
            name: value for name, value in vars(self).items() if name not in ("_object", "_session", "_spec", "_source")
        }
        vars(copied).update(copy.deepcopy(own, memo))
        if handle.grad is not None:
            copied.grad = copy.deepcopy(handle.grad, memo)
        return copied


def _by_torchnp_np(function: Any, args: tuple, kwargs: dict[str, Any], method: str = "__call__") -> Any:
    """Return the result of `torchnp.np` within its `semantics`; NotImplemented outside."""
    module = sys.modules.get("torchnp.np.semantics")
    if module is None or not module.is_active():
        return NotImplemented
    return module.call_numpy(function, args, kwargs, method)


def _new(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Replace ``new``: return a handle with the same dtype, of a size or on data; torch's would be a plain tensor."""
    size = args[0] if args and isinstance(args[0], torch.Size) else args or (0,)
    if all(type(n) is int for n in size):
        return self.new_empty(size)
    data, is_handle = args[0], isinstance(args[0], NoValues)
    return data.to(self.dtype) if is_handle else self.new_tensor(data)


def _new_tensor(self: Any, data: Any, *, requires_grad: bool = False, **kwargs: Any) -> Any:
    """Replace ``new_tensor``: return a handle on data, by default with the same dtype; torch's would be plain."""
    dtype = kwargs.get("dtype") or self.dtype
    if isinstance(data, NoValues):
        handle: Any = data
        made = handle.detach().clone().to(dtype)
    else:
        made = self._session.send(torch.as_tensor(data, dtype=dtype).detach())
    return made.requires_grad_(requires_grad)


for _name, _made in {"new": _new, "new_tensor": _new_tensor}.items():
    setattr(NoValues, _name, _made)


def is_count(x: Any) -> bool:
    """Return whether torch would read a tensor's value as an index: it is 0-d with an integer dtype, not uint8."""
    return not (x.dim() or x.is_floating_point() or x.is_complex() or x.dtype in (torch.bool, torch.uint8))


def way_round(file: str) -> str:
    """Return advice for an error in which code in a torch file asks for values."""
    if file == "optim/lr_scheduler.py":
        return "A scheduler that looks at a metric runs on the client: give its step() what .publish() gives"
    if file.startswith("optim/"):
        return (
            f"The optimizer in torch/{file} reads values in each step, so it cannot run over handles: take SGD, Adam, AdamW, "
            "Muon, RMSprop or another that reads none, or give it plain parameters whose .grad you publish"
        )
    if file == "nn/modules/batchnorm.py":
        return (
            "With momentum=None a batch norm computes with its counter: set that before session.module(model), which leaves the "
            "counter here, or give it a plain one: norm.num_batches_tracked = torch.tensor(0)"
        )
    if file == "nn/modules/transformer.py":
        return "Say whether the mask is causal with is_causal=, or of nn.Transformer src_is_causal= and tgt_is_causal="
    if file == "nn/functional.py":
        return "gaussian_nll_loss looks for negative variances: write 0.5 * (var.log() + (input - target) ** 2 / var).mean()"
    if file.startswith("nn/utils/"):
        return "Have torch.nn.utils change a module before session.module(model), which takes it as it is then"
    if file == "nn/init.py":
        return (
            "torch draws again what is out of bounds, and orders by values: initialise the module before session.module(model), "
            "or a plain tensor, and parameter.copy_(tensor) under torch.no_grad()"
        )
    if file.startswith("testing/"):
        return (
            "torch.testing compares what .publish() gives, and torch.jit.trace runs over handles with check_trace=False"
        )
    if file == "autograd/gradcheck.py":
        return "gradcheck compares values: call it with plain tensors and the plain module"
    if file.startswith(("_subclasses/", "export/")):
        return (
            "Fake tensors have no values anywhere: torch.export takes the plain module, and make_fx records over handles with "
            'tracing_mode="real"'
        )
    if file.startswith("amp/"):
        return (
            "The scale and the state of a GradScaler over handles depend on gradients: publish scaler._scale where it is "
            "to be seen, or autocast to bfloat16, which needs no scaler"
        )
    if file.startswith("distributions/"):
        return (
            "Distributions look at their parameters with validate_args=True; Wishart, the variance of StudentT, and the mode of "
            "Dirichlet and Beta do in any case"
        )
    return ""


_CONVERSION = "conversion to a NumPy array"
_OPERANDS = "make the array a tensor with torch.from_numpy(array) or session.send(array)"


def _reflected(name: str) -> Any:
    theirs = getattr(torch.Tensor, name)

    def method(self: NoValues, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            raise TypeError(f"a NumPy array and a handle cannot be combined: {_OPERANDS}")
        return theirs(self, other)

    method.__doc__ = "The operator with what is not a handle on its left; an array is refused."
    leave_to_python(method)  # else torch.compile would recurse: it looks up the base's method in the subclass
    return method


for _method in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
    setattr(NoValues, f"__r{_method}__", _reflected(f"__r{_method}__"))


def _refusing(name: str) -> Any:
    def method(self: NoValues, *args: Any, **kwargs: Any) -> NoReturn:
        self._no_values(name)

    method.__doc__ = "Raises: a handle has no values here."
    return method


for _method, _spoken in {
    "item": ".item()", "tolist": ".tolist()", "numpy": ".numpy()", "cpu": ".cpu()", "cuda": ".cuda()",
    "__bool__": "bool() or if", "__int__": "int()", "__float__": "float()", "__complex__": "complex()",
    "__index__": "use as an index", "__array__": _CONVERSION, "__dlpack__": "DLPack",
    "__dlpack_device__": "DLPack", "data_ptr": ".data_ptr()", "untyped_storage": ".untyped_storage()",
    "storage": ".storage()", "share_memory_": ".share_memory_()", "pin_memory": ".pin_memory()",
}.items():  # fmt: skip
    setattr(NoValues, _method, _refusing(_spoken))
