"""`TensorArray`: a tensor with the interface of `numpy.ndarray`, for code written for arrays.

Scripts (``python -m torchnp.np``) and NumPy's own Python functions run on it. Programs of torch don't need it: the
functions of `torchnp.np` take and return tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchnp.np.array_memory import ArrayFlags, Mirror
from torchnp.np.dtypes import as_tensor, is_remote, numpy_dtype, torch_dtype
from torchnp.np.indexing import assign, index_of


class TensorArray:
    """A tensor's memory with the interface of `numpy.ndarray`.

    Parameters
    ----------
    tensor : Tensor
        Shares its memory with the array.
    readonly : bool
        Whether writes raise NumPy's ValueError.
    mirror : Mirror, optional
        The source of which the array is a reversed copy; writes go there too.
    scalar : bool
        Whether NumPy would have a scalar here. ``x += 1`` does not change a scalar, but replaces it.
    """

    __slots__ = ("mirror", "readonly", "scalar", "tensor")
    __array_priority__ = 100.0
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tensor: Tensor, readonly: bool = False, mirror: Mirror | None = None) -> None:
        self.tensor = tensor
        self.readonly = readonly
        self.mirror = mirror
        self.scalar = False

    # ------------------------------------------------------------ attributes

    @property
    def dtype(self) -> np.dtype:
        """NumPy's dtype."""
        return numpy_dtype(self.tensor.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes; setting them reshapes in place, as NumPy does."""
        return tuple(self.tensor.shape)

    @shape.setter
    def shape(self, shape: Any) -> None:
        self.tensor = _run("reshape", self, shape).tensor

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.tensor.dim()

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.tensor.numel()

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps in bytes."""
        return tuple(s * self.itemsize for s in self.tensor.stride())

    @property
    def T(self) -> TensorArray:
        """The array with its axes reversed."""
        return _run("transpose", self)

    @property
    def mT(self) -> TensorArray:
        """The array with its last two axes swapped."""
        return _run("matrix_transpose", self)

    @property
    def real(self) -> TensorArray:
        """The real parts, a view."""
        return _run("real", self)

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> TensorArray:
        """The imaginary parts, a view; for a real array, zeros that can't be written."""
        found = _run("imag", self)
        return TensorArray(found.tensor, readonly=not self.tensor.is_complex())

    @imag.setter
    def imag(self, value: Any) -> None:
        if not self.tensor.is_complex():
            raise TypeError("array does not have imaginary part to set")
        self.imag[...] = value

    @property
    def flat(self) -> FlatElements:
        """The elements in row-major order."""
        return FlatElements(self)

    @property
    def flags(self) -> ArrayFlags:
        """Contiguity and whether the array may be written."""
        return ArrayFlags(self)

    @property
    def base(self) -> None:
        """None, because tensors don't record the array that they are views of."""
        return None

    @property
    def device(self) -> str:
        """``"cpu"``, the name of NumPy's only device."""
        return "cpu"

    # ------------------------------------------------------------ Python's protocols

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        from torchnp.interop import to_numpy

        if is_remote(self.tensor):
            return np.asarray(self.tensor)  # which raises the error of values that are not here
        found = to_numpy(self.tensor.detach().resolve_conj().resolve_neg())
        return found.astype(dtype) if dtype is not None and found.dtype != dtype else found.copy() if copy else found

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(getattr(NAMESPACE, ufunc.__name__), method)(*inputs, **kwargs)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[TensorArray]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __getitem__(self, index: Any) -> Any:
        if OBSERVER is not None:
            return OBSERVER.call("getitem", TensorArray._get, (self, index), {})
        return self._get(index)

    def _get(self, index: Any) -> TensorArray:
        given = unwrapped(index)
        found = index_of(self.tensor, given)
        if found.dim() == 0 and not _names_rest(given):
            return as_scalar(TensorArray(found.clone()))  # a value, not a view
        if _goes_back(given) and not _picks(given):
            return TensorArray(found, self.readonly, Mirror(found, self, index))
        return TensorArray(found, self.readonly and not _picks(given), None if _picks(given) else self.mirror)

    def __setitem__(self, index: Any, value: Any) -> None:
        if OBSERVER is not None:
            OBSERVER.call("setitem", TensorArray._set, (self, index, value), {})
        else:
            self._set(index, value)

    def _set(self, index: Any, value: Any) -> None:
        if self.readonly:
            raise ValueError("assignment destination is read-only")
        given = unwrapped(value)
        assign(self.tensor, unwrapped(index), given.clone() if isinstance(given, Tensor) else given)
        written(self)

    def __bool__(self) -> bool:
        if self.size != 1:
            words = "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
            empty = "The truth value of an empty array is ambiguous. Use `array.size > 0` to check that an array is not empty."
            raise ValueError(words if self.size else empty)
        return bool(self.tensor.reshape(()) != 0)

    def _number(self) -> Any:
        if self.ndim:
            raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
        return self.tensor.item()

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in "iu":
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(self.tensor.item())

    def __repr__(self) -> str:
        return repr(np.asarray(self))

    def __str__(self) -> str:
        return str(np.asarray(self))

    def __format__(self, spec: str) -> str:
        return format(np.asarray(self)[()], spec)

    def __copy__(self) -> TensorArray:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> TensorArray:
        return self.copy()

    # ------------------------------------------------------------ methods that are not functions

    def item(self, *index: Any) -> Any:
        """Return one element as a Python number."""
        if not index:
            if self.size != 1:
                raise ValueError("can only convert an array of size 1 to a Python scalar")
            return self.tensor.reshape(()).item()
        return (
            self.reshape(-1)[index[0]].item()
            if len(index) == 1 and not isinstance(index[0], tuple)
            else self[index].item()
        )

    def tolist(self) -> Any:
        """Return nested lists of Python numbers."""
        return self.tensor.tolist()

    def tobytes(self, order: str = "C") -> bytes:
        """Return the elements' bytes."""
        return np.asarray(self).tobytes(order)  # type: ignore[arg-type]

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> TensorArray:
        """Return the array in another dtype."""
        if not np.can_cast(self.dtype, dtype, casting):  # type: ignore[arg-type]
            raise TypeError(
                f"Cannot cast array data from {self.dtype!r} to {np.dtype(dtype)!r} according to the rule '{casting}'"
            )
        return self if not copy and self.dtype == dtype else _run("astype", self, dtype, copy=copy)

    def view(self, dtype: Any = None, type: Any = None) -> TensorArray:
        """Return an array of another dtype on the same memory."""
        if dtype is None or (
            isinstance(dtype, builtins_type) and not issubclass(dtype, np.generic | bool | int | float | complex)
        ):
            return TensorArray(self.tensor[...], self.readonly)
        return TensorArray(self.tensor.view(torch_dtype(dtype)), self.readonly)

    def reshape(self, *shape: Any, order: str = "C", copy: Any = None) -> TensorArray:
        """Return the elements in another shape."""
        found = _run("reshape", self, shape[0] if len(shape) == 1 else shape, order, copy=copy)
        return TensorArray(found.tensor, self.readonly, self.mirror)

    def transpose(self, *axes: Any) -> TensorArray:
        """Return the array with its axes reversed or permuted."""
        return _run("transpose", self, (axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes) or None)

    def flatten(self, order: str = "C") -> TensorArray:
        """Return a 1-d copy."""
        return _run("ravel", self, order).copy()

    def copy(self, order: str = "C") -> TensorArray:
        """Return a copy, in row-major order unless ``order`` says otherwise."""
        return _run("copy", self, order)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array

    def fill(self, value: Any) -> None:
        """Set all elements."""
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
        """Sort in place."""
        self[...] = _run("sort", self, axis, kind, order, stable=stable)

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """Partition in place."""
        self[...] = _run("partition", self, kth, axis, kind, order)

    def byteswap(self, inplace: bool = False) -> TensorArray:
        """Return the array with each element's bytes reversed."""
        swapped = TensorArray(as_tensor(np.asarray(self).byteswap().copy()))
        if inplace:
            self[...] = swapped
        return self if inplace else swapped

    def setflags(self, write: Any = None, align: Any = None, uic: Any = None) -> None:
        """Set whether the array may be written."""
        self.readonly = self.readonly if write is None else not write


builtins_type = type


def written(array: Any) -> None:
    """After a write to a reversed copy, repeat the write in its source."""
    if isinstance(array, TensorArray) and array.mirror is not None:
        array.mirror.update()


def _goes_back(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(p, slice) and p.step is not None and p.step < 0 for p in parts)


def _picks(index: Any) -> bool:
    """Return whether an index contains arrays, so that indexing copies."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(p, (Tensor, list, np.ndarray, bool)) for p in parts)


def _names_rest(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(p is Ellipsis or p is None or isinstance(p, (Tensor, list)) for p in parts) or not parts


class FlatElements:
    """The elements of an array in row-major order, for reading and writing."""

    def __init__(self, array: TensorArray) -> None:
        self._array = array

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self) -> Iterator[Any]:
        return iter(self._array.reshape(-1))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self._array).reshape(-1).copy()

    def __getitem__(self, index: Any) -> Any:
        found = self._array.reshape(-1)[index]
        return found.copy() if isinstance(found, TensorArray) else found

    def __setitem__(self, index: Any, value: Any) -> None:
        array = self._array
        if array.readonly:
            raise ValueError("assignment destination is read-only")
        places = torch.arange(array.size)
        chosen = index_of(places, unwrapped(index)).reshape(-1)
        values = as_tensor(unwrapped(value)).reshape(-1)
        if chosen.numel() and values.numel():
            many = values.repeat(-(-chosen.numel() // values.numel()))[: chosen.numel()]
            _run("put", array, TensorArray(chosen), TensorArray(many))


# ---------------------------------------------------------------- between arrays and tensors


def unwrapped(x: Any) -> Any:
    """Replace arrays by their tensors, also inside lists, tuples, dicts and slices."""
    if isinstance(x, TensorArray):
        return x.tensor
    if isinstance(x, FlatElements):
        return as_tensor(np.asarray(x))
    if type(x) in (list, tuple):
        return type(x)(map(unwrapped, x))
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(unwrapped, x))
    if isinstance(x, dict):
        return {k: unwrapped(v) for k, v in x.items()}
    if isinstance(x, slice):
        return slice(*map(unwrapped, (x.start, x.stop, x.step)))
    return x


def wrapped(x: Any, known: dict[int, TensorArray] | None = None) -> Any:
    """Replace tensors by arrays, and dtypes by NumPy's. Tensors in ``known`` become the arrays they belong to."""
    if isinstance(x, Tensor):
        found = known.get(id(x)) if known else None
        return TensorArray(x) if found is None else found
    if isinstance(x, torch.dtype):
        return numpy_dtype(x)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(wrapped(v, known) for v in x))
    if isinstance(x, (list, tuple)):
        return type(x)(wrapped(v, known) for v in x)
    return x


def known_arrays(x: Any, found: dict[int, TensorArray] | None = None) -> dict[int, TensorArray]:
    """Return the arrays in arguments by their tensors' ids, so that a function that returns an argument returns it."""
    found = {} if found is None else found
    if isinstance(x, TensorArray):
        found[id(x.tensor)] = x
    elif isinstance(x, (list, tuple)):
        for v in x:
            known_arrays(v, found)
    elif isinstance(x, dict):
        known_arrays(list(x.values()), found)
    return found


def on_arrays(function: Callable) -> Callable:
    """Return a function of arrays that calls the given function of tensors."""

    def call(*args: Any, **kwargs: Any) -> Any:
        known = known_arrays((args, kwargs))
        _refuse_readonly(kwargs.get("out"))
        found = function(*unwrapped(args), **unwrapped(kwargs))
        out = kwargs.get("out")
        for target in out if isinstance(out, tuple) else (out,):
            written(target)
        results = wrapped(found, known)
        return as_scalar(results) if call.__name__ not in _OF_ARRAYS and id(found) not in known else results

    call.__name__ = call.__qualname__ = getattr(function, "__name__", "call")
    call.__doc__ = function.__doc__
    return call


# Functions whose 0-d results are arrays in NumPy too.
_OF_ARRAYS = (
    "array", "asarray", "asanyarray", "zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like",
    "reshape", "squeeze", "transpose", "broadcast_to", "real", "imag", "as_strided", "copy",
)  # fmt: skip


def as_scalar(array: Any) -> Any:
    """Mark a new 0-d array as one for which NumPy would return a scalar."""
    if isinstance(array, TensorArray) and not array.ndim and array.mirror is None:
        array.scalar = True
    return array


def _refuse_readonly(out: Any) -> None:
    for x in out if isinstance(out, tuple) else (out,):
        if isinstance(x, TensorArray) and x.readonly:
            raise ValueError("output array is read-only")


NAMESPACE: Any = None  # NumPy's functions on arrays: `torchnp.np.rebind_numpy_functions` sets it
OBSERVER: Any = None  # a `torchnp.np.script.ScriptReport` while it runs a script


def _run(name: str, *args: Any, **kwargs: Any) -> Any:
    function = getattr(NAMESPACE, name)
    return function(*args, **kwargs) if OBSERVER is None else OBSERVER.call(name, function, args, kwargs)


def _method(name: str) -> Callable:
    """Return a method that calls the function of the same name."""

    def call(self: TensorArray, *args: Any, **kwargs: Any) -> Any:
        return _run(name, self, *args, **kwargs)

    call.__name__ = name
    call.__doc__ = f"`numpy.{name}`."
    return call


for _name in [
    "all",
    "any",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "choose",
    "clip",
    "conj",
    "conjugate",
    "cumprod",
    "cumsum",
    "diagonal",
    "dot",
    "max",
    "mean",
    "min",
    "nonzero",
    "prod",
    "put",
    "ravel",
    "repeat",
    "round",
    "searchsorted",
    "squeeze",
    "std",
    "sum",
    "swapaxes",
    "take",
    "trace",
    "var",
]:
    setattr(TensorArray, _name, _method(_name))
TensorArray.compress = lambda self, condition, axis=None, out=None: _run("compress", condition, self, axis, out)  # type: ignore[attr-defined]

_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "power", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift",
    "rshift": "right_shift", "divmod": "divmod",
}  # fmt: skip
_COMPARED = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}


def _binary(name: str, reflected: bool) -> Callable:
    def call(self: TensorArray, other: Any) -> Any:
        if other is None or isinstance(other, str):
            return NotImplemented
        return _run(name, *((other, self) if reflected else (self, other)))

    return call


def _inplace(name: str) -> Callable:
    def call(self: TensorArray, other: Any) -> TensorArray:
        if self.scalar:
            return _run(name, self, other)
        if self.readonly:
            raise ValueError("output array is read-only")
        return _run(name, self, other, out=self)

    return call


def _power(self: TensorArray, other: Any, modulo: Any = None) -> Any:
    return square_or_power(self, other)


def square_or_power(x: TensorArray, exponent: Any) -> Any:
    """Return ``x ** exponent``. For the Python numbers 2, 0.5, -1, 1 and 0, NumPy calls special functions."""
    if x.dtype.kind in "fc" and type(exponent) in (int, float) and exponent in (2, 0.5, -1, 1):
        names = {2: "square", 0.5: "sqrt", -1: "reciprocal", 1: "positive"}
        return _run(names[exponent], x)
    if x.dtype.kind in "biu" and type(exponent) is int and exponent == 2:
        return _run("square", x)
    return _run("power", x, exponent)


for _operator, _name in _OPERATORS.items():
    setattr(TensorArray, f"__{_operator}__", _binary(_name, False))
    setattr(TensorArray, f"__r{_operator}__", _binary(_name, True))
    if _operator != "divmod":
        setattr(TensorArray, f"__i{_operator}__", _inplace(_name))
for _operator, _name in _COMPARED.items():
    setattr(TensorArray, f"__{_operator}__", _binary(_name, False))
for _operator, _name in _UNARY.items():
    setattr(TensorArray, f"__{_operator}__", lambda self, _n=_name: _run(_n, self))
TensorArray.__pow__ = _power  # type: ignore[operator]
