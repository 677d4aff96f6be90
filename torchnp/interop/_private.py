"""The only module in which `torchnp.interop` and the client of `torchnp.rpc` access private names of torch.

`lookup` finds each name. If it is missing, a public equivalent replaces it, or using it raises an error.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import operator
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from torchnp.core.target import RANGE

_TORCH = RANGE  # versions that have all of these names


def lookup(path: str, default: Any = None) -> Any:
    """Return the object at a dotted path below ``torch``, or the default if a part is missing."""
    found: Any = torch
    for name in path.split("."):
        outer, found = found, getattr(found, name, None)
        if found is None and isinstance(outer, type(torch)):
            try:
                found = importlib.import_module(f"{outer.__name__}.{name}")
            except ModuleNotFoundError:
                return default
        if found is None:
            return default
    return found


def absent(what: str) -> Callable[..., NoReturn]:
    """Return a stand-in for a name that this torch lacks; calling it raises an error."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"torch {torch.__version__} has no {what}, which torchnp needs here: use torch {_TORCH}")

    return refuse


# ---------------------------------------------------------------- operators

device_constructors: Callable[[], set[Any]] = lookup("utils._device._device_constructors", set)
"""torch's functions that make tensors and take ``device=``; none if this torch does not list them."""

if TYPE_CHECKING:
    from torch._ops import OpOverload
else:
    OpOverload = type(torch.ops.aten.relu.default)

schema_of: Callable[[Any], Any] = operator.attrgetter("_schema")
"""The schema of an overload: its arguments, results and their alias marks."""
if lookup("ops.aten.relu.default._schema") is None:
    schema_of = absent("OpOverload._schema")

_op_names = lookup("_C._dispatch_get_all_op_names", absent("torch._C._dispatch_get_all_op_names"))


def registered_schemas(space: str) -> Iterator[tuple[str, str, str]]:
    """Yield every overload registered in a namespace: its full name, schema text and tags."""
    packets = {name.partition("::")[2].partition(".")[0] for name in _op_names() if name.startswith(f"{space}::")}
    for base in sorted(packets):
        packet = getattr(getattr(torch.ops, space), base)
        for overload in packet.overloads():  # torch's resolution order
            func = getattr(packet, overload)
            yield func.name(), str(schema_of(func)), " ".join(sorted(tag.name for tag in func.tags))


has_kernel: Callable[[str, str], bool] = lookup(
    "_C._dispatch_has_kernel_for_dispatch_key", absent("torch._C._dispatch_has_kernel_for_dispatch_key")
)
"""Whether torch's dispatcher has a kernel for an overload, given by full name, under a dispatch key.

``OpOverload.has_kernel_for_dispatch_key`` also counts Python kernels for tracing, which CPU calls never reach.
"""


def is_composite(func: OpOverload) -> bool:
    """Return whether torch's CPU has no kernel for the op, and computes it through other ops."""
    name = func.name()
    return has_kernel(name, "CompositeImplicitAutograd") and not any(
        has_kernel(name, key) for key in ("CPU", "CompositeExplicitAutograd")
    )


def shaped_by_python(func: OpOverload) -> bool:
    """Return whether a Python function implements the op's meta kernel. Usually the CPU kernel's own C++ code does."""
    return torch.DispatchKey.Meta in getattr(func, "py_kernels", ())


_at_key: Callable[[Any], Any] = operator.attrgetter("_op_dk")
if lookup("ops.aten.relu.default._op_dk") is None:
    _at_key = absent("OpOverload._op_dk")


def decomposed(func: OpOverload) -> Callable[..., Any]:
    """Return the composite kernel that torch's CPU runs. `OpOverload.decompose` would prefer a Python registration."""
    return functools.partial(_at_key(func), torch.DispatchKey.CompositeImplicitAutograd)


_custom = lookup("_library.custom_ops.OPDEFS")
_of_libraries = lookup("library._impls")


def is_python(name: str) -> bool:
    """Return whether an operator's CPU kernel is a Python function, by ``torch.library.custom_op`` or a ``Library``."""
    if _custom is not None and name in _custom:
        return True
    if _custom is None or _of_libraries is None:
        absent("torch._library.custom_ops.OPDEFS" if _custom is None else "torch.library._impls")()
    space, _, rest = name.partition("::")
    keys = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    return any(f"{space}/{rest}/{key}" in _of_libraries for key in keys)


def decomposition(func: OpOverload) -> Callable[..., Any] | None:
    """Return a function that computes an operator by others: torch's Python decomposition, or its composite kernel."""
    found = decompositions().get(func)
    if found is None and has_kernel(func.name(), "CompositeImplicitAutograd"):
        return decomposed(func)
    return found


@functools.cache
def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Return torch's own decompositions: all of them, or else the ones that export uses."""
    found = lookup("_decomp.decomposition_table")
    return torch.export.default_decompositions() if found is None else found


# ---------------------------------------------------------------- tensors


def _has_no_storage(tensor: torch.Tensor) -> bool:
    try:
        tensor.untyped_storage().data_ptr()
    except NotImplementedError:  # for a layout that does not have one storage
        return False
    except RuntimeError:
        return True
    return False


is_zero: Callable[[torch.Tensor], bool] = lookup("Tensor._is_zerotensor", _has_no_storage)
"""Whether a tensor is a zero tensor of forward-mode AD, which has no memory."""

set_conj: Callable[[torch.Tensor, bool], None] = lookup("_C._set_conj", absent("torch._C._set_conj"))
set_neg: Callable[[torch.Tensor, bool], None] = lookup("_C._set_neg", absent("torch._C._set_neg"))
"""Set or clear a tensor's conjugate or negative bit, without touching its memory."""

version_of: Callable[[torch.Tensor], int] = operator.attrgetter("_version")
"""A tensor's version counter; in-place writes increment it."""
if lookup("Tensor._version") is None:
    version_of = absent("Tensor._version")

base_of: Callable[[torch.Tensor], torch.Tensor | None] = operator.attrgetter("_base")
"""The base of a view, else None."""
if lookup("Tensor._base") is None:
    base_of = absent("Tensor._base")

make_handle: Callable[..., Any] = lookup("Tensor._make_wrapper_subclass", absent("Tensor._make_wrapper_subclass"))
"""Make a tensor of a subclass with sizes, strides and a dtype but no memory."""

# The flag makes code that reads the raw pointer raise an error; without it, such code gets null and crashes.
forbid_pointer: Callable[[torch.Tensor], None] = lookup(
    "_C._set_throw_on_mutable_data_ptr", absent("torch._C._set_throw_on_mutable_data_ptr")
)


def _as_plain(cls: type, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
    with torch.DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


no_torch_function: Any = lookup("_C._disabled_torch_function_impl", classmethod(_as_plain))
"""The ``__torch_function__`` of a subclass that overrides no functions."""


# ---------------------------------------------------------------- modes

if TYPE_CHECKING:
    from torch.utils._python_dispatch import TorchDispatchMode
else:
    TorchDispatchMode = lookup("utils._python_dispatch.TorchDispatchMode")
    if TorchDispatchMode is None:
        TorchDispatchMode = type("TorchDispatchMode", (), {"__init__": absent("TorchDispatchMode")})

_mode_at = lookup("_C._get_dispatch_mode")
_depth = lookup("_C._len_torch_dispatch_stack", lambda: 1)
_keys = lookup("_C._TorchDispatchModeKey")
_TRACERS = [] if _keys is None else [_keys.FUNCTIONAL, _keys.PROXY, _keys.FAKE]


def is_traced() -> bool:
    """Return whether ops are traced or faked (make_fx, export, fake tensors). Such modes are below all other modes."""
    if not _depth():
        return False
    if _mode_at is None or not _TRACERS:
        absent("torch._C._get_dispatch_mode")()
    return any(_mode_at(key) is not None for key in _TRACERS)


def is_recorded() -> bool:
    """Return whether make_fx records operators. Results that it does not record become constants of its graph."""
    return bool(_depth()) and _mode_at is not None and _keys is not None and _mode_at(_keys.PROXY) is not None


_forward_mode = lookup("autograd.forward_ad")
_transforms = lookup("_C._functorch.peek_interpreter_stack", lambda: None)


_saving_hooks = lookup("_C._autograd._top_saved_tensors_default_hooks", lambda ignored: None)


def is_observed() -> bool:
    """Return whether more than reverse-mode autograd observes operators.

    An observer is a mode, a transform of torch.func, forward-mode AD, or a saved-tensor hook.
    """
    if _depth() or _transforms() is not None or _saving_hooks(True) is not None:
        return True
    return bool(getattr(_forward_mode, "_current_level", -1) >= 0)


_node_at_work = lookup("_C._current_autograd_node", lambda: None)


def accumulating() -> Any:
    """Return the leaf whose gradient the backward pass is accumulating now, or None."""
    return getattr(_node_at_work(), "variable", None)


def take_for_recording(cls: type) -> bool:
    """Make make_fx record operators on a subclass as it does on tensors; return whether this changed anything."""
    home = lookup("fx.experimental.proxy_tensor")
    known = getattr(home, "HANDLED_TYPES", None)
    if known is None or cls in known:
        return False
    home.HANDLED_TYPES = (*known, cls)
    return True


def leave_to_python(function: Any) -> None:
    """Make torch.compile run a function and all that it calls eagerly, without loading torch.compile."""
    function._torchdynamo_disable = True
    frames = lookup("_C._dynamo.eval_frame")
    strategy, action = (getattr(frames, name, None) for name in ("_FrameExecStrategy", "_FrameAction"))
    if strategy is not None and action is not None:
        frames.set_code_exec_strategy(function.__code__, strategy(action.SKIP, action.SKIP))


def make_state(optimizer: Any, group: dict[str, Any]) -> None:
    """Make an optimizer create the state of a group's parameters, as its first step would do."""
    init = getattr(optimizer, "_init_group", absent("Optimizer._init_group"))
    init(group, *([] for _ in list(inspect.signature(init).parameters)[1:]))


of_comparison: Callable[[type[Exception], str], Exception] = lookup(
    "testing._comparison.ErrorMeta", lambda kind, text: kind(text)
)
"""Make an exception that torch.testing reraises with its class and text.

torch.testing reports other exceptions as failures.
"""


# ---------------------------------------------------------------- constructors of subclasses

_constructing = threading.Lock()
_users = 0


@contextmanager
def constructors(kind: type[TorchDispatchMode]) -> Iterator[None]:
    """Make ``Subclass(data)`` work under a mode.

    torch refuses to make a subclass of a tensor that Python has already seen.
    """
    global _users
    lookup("_dynamo")  # import it first, because it inspects the constructor at import

    with _constructing:
        _users += 1
        if _users == 1:
            torch.Tensor.__new__ = _new_below(kind)  # type: ignore[method-assign]
    try:
        yield
    finally:
        with _constructing:
            _users -= 1
            if not _users:
                del torch.Tensor.__new__


def _new_below(kind: type[TorchDispatchMode]) -> Callable[..., Any]:
    current = lookup("utils._python_dispatch._get_current_dispatch_mode")
    pop_mode = lookup("utils._python_dispatch._pop_mode_temporarily")
    make = torch.Tensor.__mro__[1].__new__  # the C base class's constructor
    if current is None or pop_mode is None:
        return make  # torch then raises its own error for such constructors

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        if cls is not torch.Tensor and isinstance(current(), kind):
            with pop_mode():
                return make(cls, *args, **kwargs)
        return make(cls, *args, **kwargs)

    return new
