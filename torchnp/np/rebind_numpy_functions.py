"""NumPy's own Python functions on tensors: the same code, with NumPy's names bound to the functions of this package.

About a third of NumPy is Python code that calls the rest: `numpy.gradient` subtracts slices, for example.
`rebound` returns a copy of an installed NumPy function with other globals: a public name of NumPy means its row here,
`numpy.ndarray` means `TensorArray`, and private helpers are rebound too. So the row has the semantics, checks and
messages of the installed NumPy, and each step is an operator of torch.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp.np import arrays
from torchnp.np.arrays import TensorArray, on_arrays, unwrapped, wrapped
from torchnp.np.dtypes import TORCH_OF, created_beside
from torchnp.np.table import TABLE, add_row, in_numpy
from torchnp.np.ufunc import TensorUfunc


class ArrayUfunc:
    """A `TensorUfunc` on arrays, with its methods."""

    def __init__(self, ufunc: TensorUfunc) -> None:
        self.tensor_ufunc = ufunc
        self.__name__ = ufunc.__name__
        self._call = on_arrays(ufunc)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def at(self, array: Any, indices: Any, b: Any = None) -> None:
        """`numpy.ufunc.at`."""
        if getattr(array, "readonly", False):
            raise ValueError("array is read-only")
        self.tensor_ufunc.at(unwrapped(array), unwrapped(indices), unwrapped(b))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.tensor_ufunc, name)
        return on_arrays(found) if name in ("reduce", "accumulate", "reduceat", "outer") else found


class ArrayConverter:
    """The class with which NumPy's functions convert array-likes (``numpy._core.multiarray._array_converter``)."""

    def __init__(self, *given: Any) -> None:
        self._given = given
        self._arrays = [NAMESPACE.asarray(x) for x in given]
        self.scalar_input = tuple(isinstance(x, (bool, int, float, complex, np.generic)) for x in given)

    def __len__(self) -> int:
        return len(self._arrays)

    def __getitem__(self, index: int) -> TensorArray:
        return self._arrays[index]

    def as_arrays(self, subok: bool = True, pyscalars: str = "convert_if_no_array") -> tuple[Any, ...]:
        """Return the inputs as arrays; Python numbers stay if ``pyscalars="preserve"``, or if an input is an array."""
        weak = [type(x) in (int, float, complex) for x in self._given]
        keep = pyscalars == "preserve" or (pyscalars == "convert_if_no_array" and not all(weak))
        pairs = zip(self._given, self._arrays, weak, strict=True)
        return tuple(x if keep and is_weak else a for x, a, is_weak in pairs)

    def result_type(self, extra_dtype: Any = None, ensure_inexact: bool = False) -> np.dtype:
        """Return NumPy's result type of the inputs and ``extra_dtype``; never an integer if ``ensure_inexact``."""
        weak = (type(x) in (int, float, complex) for x in self._given)
        parts = [x if is_weak else a.dtype for x, a, is_weak in zip(self._given, self._arrays, weak, strict=True)]
        parts += [] if extra_dtype is None else [extra_dtype]
        found = np.result_type(*parts)
        return np.result_type(*parts, 0.0) if ensure_inexact and found.kind not in "fc" else found

    def wrap(self, array: Any, to_scalar: Any = None) -> Any:
        """Return the array unchanged."""
        return array


# ---------------------------------------------------------------- translation of what a function names

OVERRIDES: dict[str, Any] = {"_array_converter": ArrayConverter}  # private C functions of NumPy, by name


class NumpyModule:
    """A module of NumPy whose attributes are replaced (see `translated`) when they are accessed."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module
        self.__name__ = module.__name__

    def __getattr__(self, name: str) -> Any:
        full = f"{self.__name__.rpartition('.')[2]}.{name}"
        override = OVERRIDES.get(full, OVERRIDES.get(name))
        found = translated(getattr(self._module, name)) if override is None else override
        if not name.startswith("__"):
            setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        return dir(self._module)


NAMESPACE = NumpyModule(np)
arrays.NAMESPACE = NAMESPACE


@functools.cache
def public_names() -> dict[int, str]:
    """Return the names of NumPy's public functions by id; if there are several names, the first one with a row."""
    found: dict[int, str] = {}
    for space, module in (
        ("", np),
        ("linalg.", np.linalg),
        ("fft.", np.fft),
        ("lib.stride_tricks.", np.lib.stride_tricks),
    ):
        for name in dir(module):
            if name.startswith("_"):
                continue
            value = getattr(module, name)
            if callable(value) and (id(value) not in found or f"{space}{name}" in TABLE):
                found[id(value)] = f"{space}{name}"
    return found


@functools.cache
def array_function(name: str) -> Any:
    """Return a function of NumPy on `TensorArray`: its row, or NumPy itself on the arrays' values."""
    if name not in TABLE:
        return computed_by_numpy(name, in_numpy(name))
    function = TABLE[name].function
    if isinstance(function, TensorUfunc):
        return ArrayUfunc(function)
    found = getattr(function, "on_arrays", None) or on_arrays(function)
    if name == "flip":
        return flip
    return _readonly(found) if name in READONLY else found


def flip(m: Any, axis: Any = None) -> TensorArray:
    """`numpy.flip` of an array: a reversed copy; writes to it are repeated in the original."""
    from torchnp.np.axes import normal_axes

    array = NAMESPACE.asarray(m)
    axes = normal_axes(axis if axis is None or isinstance(axis, tuple) else (axis,), array.ndim)
    return array[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(array.ndim))]


READONLY = ("broadcast_to", "diagonal", "lib.stride_tricks.sliding_window_view")


def _readonly(function: Callable) -> Callable:
    """Wrap a function so that its result, a view, is read-only unless ``writeable=True``."""

    def call(*args: Any, **kwargs: Any) -> TensorArray:
        found = function(*args, **kwargs)
        return TensorArray(found.tensor, readonly=not kwargs.get("writeable", False))

    call.__name__ = call.__qualname__ = function.__name__
    return call


def computed_by_numpy(name: str, function: Callable) -> Callable:
    """Return a function of `TensorArray` that NumPy itself computes."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return from_numpy(function(*to_arrays(args), **to_arrays(kwargs)))

    call.__name__ = call.__qualname__ = name
    return call


def to_arrays(x: Any) -> Any:
    """Replace each `TensorArray` by an ndarray on the same memory."""
    if isinstance(x, TensorArray):
        return np.asarray(x)
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(map(to_arrays, x))
    return {k: to_arrays(v) for k, v in x.items()} if isinstance(x, dict) else x


def from_numpy(x: Any) -> Any:
    """Replace each ndarray by a `TensorArray`, if tensors have its dtype."""
    from torchnp.np.dtypes import as_tensor

    if isinstance(x, np.ndarray) and x.dtype.newbyteorder("=") in TORCH_OF:
        return TensorArray(as_tensor(x))
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(map(from_numpy, x))
    return x


def translated(value: Any) -> Any:
    """Return the replacement of an object of NumPy: a row for a public function, `TensorArray` for `ndarray`."""
    if value is np.ndarray:
        return TensorArray
    if isinstance(value, types.ModuleType):
        return _module(value) if value.__name__.partition(".")[0] == "numpy" else value
    if isinstance(value, np.ufunc) and value.__name__ in TABLE:
        return array_function(value.__name__)
    if any(value is draws for draws in (np.random.Generator, np.random.RandomState, np.random.default_rng)):
        return lambda *args, **kwargs: GeneratorOnTensors(value(*args, **kwargs))
    if isinstance(getattr(value, "__self__", None), np.random.RandomState):
        return computed_by_numpy(f"random.{value.__name__}", value)
    if type(value).__module__ == "numpy.lib._index_tricks_impl" and not isinstance(value, type):
        return _rebound_instance(value)
    if isinstance(value, type) or not callable(value):
        return {k: translated(v) for k, v in value.items()} if _holds_functions(value) else value
    name = public_names().get(id(value))
    if name is not None:
        return array_function(name)
    inner = getattr(value, "_implementation", value)
    if inspect.isgeneratorfunction(inspect.unwrap(inner)):
        return value  # a context manager
    if isinstance(inner, types.FunctionType) and inner.__module__.startswith("numpy"):
        return rebound(inner)
    return value


def _module(module: types.ModuleType) -> NumpyModule:
    return NAMESPACE if module is np else _modules(module)


def rebound_module(module: Any, top: NumpyModule) -> Any:
    """Return the replacement of a NumPy module, looked up by name in ``top``, the replacement of ``numpy``."""
    found: Any = top
    for part in module.__name__.split(".")[1:]:
        found = getattr(found, part)
    return found


class GeneratorOnTensors:
    """A random generator of NumPy that returns its draws as `TensorArray`; the numbers are NumPy's."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._generator, name)
        return computed_by_numpy(name, found) if callable(found) else found


@functools.cache
def _modules(module: types.ModuleType) -> NumpyModule:
    return NumpyModule(module)


def _holds_functions(value: Any) -> bool:
    return isinstance(value, dict) and any(
        isinstance(v, types.FunctionType) or _holds_functions(v) for v in value.values()
    )


def _names_in(code: types.CodeType) -> set[str]:
    """Return the global names that a function's code uses, including its inner functions."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names_in(constant)
    return found


_REBOUND: dict[int, types.FunctionType] = {}


def rebound(function: Any) -> types.FunctionType:
    """Return a copy of a Python function of NumPy whose global names refer to their replacements."""
    inner = getattr(function, "_implementation", function)
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    known = _REBOUND.get(id(inner))
    if known is not None:
        return known
    space: dict[str, Any] = {"__builtins__": _builtins_for(inner), "__name__": inner.__module__}
    cells = tuple(types.CellType(translated(c.cell_contents)) for c in inner.__closure__ or ())
    made = types.FunctionType(inner.__code__, space, inner.__name__, inner.__defaults__, cells)
    made.__kwdefaults__, made.__doc__ = inner.__kwdefaults__, inner.__doc__
    _REBOUND[id(inner)] = made  # stored before its names are replaced, because functions may call each other
    for name in _names_in(inner.__code__):
        if name in inner.__globals__:
            value = inner.__globals__[name]
            space[name] = OVERRIDES[name] if name in OVERRIDES else translated(value)
    return made


def _rebound_instance(value: Any) -> Any:
    """Return an object such as ``np.r_`` or ``np.mgrid`` with the methods of its class rebound."""
    members: dict[str, Any] = {}
    for cls in reversed(type(value).__mro__[:-1]):
        for name, member in vars(cls).items():
            if isinstance(member, types.FunctionType):
                members[name] = rebound(member)
            elif isinstance(member, staticmethod):
                members[name] = staticmethod(translated(member.__func__))
            elif not name.startswith("__") and not isinstance(member, types.MemberDescriptorType):
                members[name] = member
    made: Any = object.__new__(type(type(value).__name__, (), members))
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    for name in (*getattr(value, "__dict__", ()), *slots):
        setattr(made, name, getattr(value, name))
    return made


def _builtins_for(function: Any) -> Any:
    found = function.__globals__["__builtins__"]
    return found if isinstance(found, dict) else vars(found)


def rebound_row(names: str, undoes: str = "") -> None:
    """Add rows for Python functions of NumPy; tensors are wrapped as arrays for the call, and results unwrapped."""
    for name in names.split():
        original = in_numpy(name)
        if original is None:
            continue
        add_row(name, _on_tensors(name, original), undoes)


def by_numpys_code(name: str) -> Callable:
    """Return NumPy's own Python code for a function, run on tensors, for rows that use it only for some calls."""
    return _on_tensors(name, in_numpy(name))


def _on_tensors(name: str, original: Callable) -> Callable:
    def function(*args: Any, **kwargs: Any) -> Any:
        with created_beside((args, kwargs)):
            return unwrapped(rebound(original)(*wrapped_arguments(args), **wrapped_arguments(kwargs)))

    def by_arrays(*args: Any, **kwargs: Any) -> Any:
        return rebound(original)(*args, **kwargs)

    function.__name__ = function.__qualname__ = by_arrays.__name__ = name.rpartition(".")[2]
    function.__doc__ = f"`numpy.{name}` on tensors: NumPy's own code, run on this package's functions."
    function.__wrapped__ = getattr(original, "_implementation", original)  # type: ignore[attr-defined]
    function.on_arrays = by_arrays  # type: ignore[attr-defined]
    return function


def wrapped_arguments(x: Any) -> Any:
    """Replace tensors in arguments by arrays, and torch's dtypes by NumPy's."""
    if isinstance(x, dict):
        return {k: wrapped_arguments(v) for k, v in x.items()}
    return wrapped(x)
