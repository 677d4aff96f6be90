"""Run a script's NumPy calls on tensors and also in NumPy itself, and report the lines where the two differ."""

from __future__ import annotations

import builtins
import linecache
import sys
import types
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torchnp.np import arrays
from torchnp.np.arrays import TensorArray
from torchnp.np.rebind_numpy_functions import NumpyModule, from_numpy, rebound_module, to_arrays
from torchnp.np.table import TABLE, in_numpy, refused

__all__ = ["Parting", "ScriptReport", "run_script"]


@dataclass(frozen=True)
class Parting:
    """A call whose result on tensors differs from NumPy's, or that only NumPy computes.

    Attributes
    ----------
    line : int
        The line of the script.
    name : str
        The function, such as ``np.cumsum``; for an operator, the function that it calls.
    words : str
        What differs, or why only NumPy computes it.
    by_numpy : bool
        Whether there is no row, so that NumPy computed the call and its result was converted to a tensor.
    """

    line: int
    name: str
    words: str
    by_numpy: bool


class ScriptReport:
    """A script's calls and differences; it observes calls while it is `torchnp.np.arrays.OBSERVER`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.calls: Counter[str] = Counter()
        self.partings: dict[tuple[int, str], Parting] = {}
        self._busy = False

    def call(self, name: str, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call a function on tensors and NumPy's on copies of the arrays; compare results and written arrays."""
        if self._busy:
            return function(*args, **kwargs)
        self._busy = True
        try:
            return self._compared(name, function, args, kwargs)
        finally:
            self._busy = False

    def _compared(self, name: str, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        self.calls[name] += 1
        root = name.partition(":")[0]
        if root not in TABLE and root not in ("getitem", "setitem"):
            reason = refused().get(root, refused().get(root.partition(".")[0], "it has no row in torchnp.np"))
            self._part(name, f"computed by NumPy: {reason}", True)
            return function(*args, **kwargs)
        copied_args, copied_kwargs = _copied(args), _copied(kwargs)
        theirs, their_error = _attempt(_numpy_function(name), copied_args, copied_kwargs)
        mine, my_error = _attempt(function, args, kwargs)
        if my_error is None or their_error is None:
            words = _difference(mine, my_error, theirs, their_error)
            if not words and "out" not in kwargs:  # a copied operand does not share memory with the copy of out=
                words = _difference(args, None, copied_args, None)
            if words:
                self._part(name, words, False)
        elif type(my_error) is not type(their_error):
            self._part(name, f"{type(my_error).__name__}, NumPy raises {type(their_error).__name__}", False)
        if my_error is not None:
            if their_error is not None:
                raise my_error
            return from_numpy(theirs)
        return mine

    def _part(self, name: str, words: str, by_numpy: bool) -> None:
        frame: Any = sys._getframe()
        while frame is not None and frame.f_code.co_filename != self.path:
            frame = frame.f_back
        line = frame.f_lineno if frame is not None else 0
        self.partings.setdefault((line, name), Parting(line, f"np.{name}", words, by_numpy))

    def lines(self) -> list[str]:
        """Return the report as text."""
        apart = [p for p in self.partings.values() if not p.by_numpy]
        alone = [p for p in self.partings.values() if p.by_numpy]
        found = [
            f"{Path(self.path).name}: {self.calls.total()} calls of NumPy ran on tensors beside NumPy; "
            f"{len(apart)} {'line parts' if len(apart) == 1 else 'lines part'}, {len(alone)} need NumPy"
        ]
        for p in sorted((*apart, *alone), key=lambda p: p.line):
            found.append(f"  line {p.line}: {p.name}: {p.words}")
            if source := linecache.getline(self.path, p.line).strip():
                found.append(f"      {source}")
        undone = {n: TABLE[n].undoes for n in sorted(self.calls) if n in TABLE and TABLE[n].undoes}
        found += ["what torch's own functions would change (torchnp explain ID):"] if undone else []
        found += [f"  np.{name}: {', '.join(ids)}" for name, ids in undone.items()]
        return found


def _numpy_function(name: str) -> Any:
    if name == "getitem":
        return lambda x, index: x[index]
    if name == "setitem":
        return _set
    root, _, method = name.partition(":")
    return getattr(in_numpy(root), method) if method else in_numpy(root)


def _set(x: Any, index: Any, value: Any) -> None:
    x[index] = value


def _copied(x: Any) -> Any:
    if isinstance(x, TensorArray):
        return np.array(x)
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(map(_copied, x))
    return {k: _copied(v) for k, v in x.items()} if isinstance(x, dict) else to_arrays(x)


def _attempt(function: Any, args: Any, kwargs: Any) -> tuple[Any, Exception | None]:
    try:
        return function(*args, **kwargs), None
    except (ArithmeticError, AttributeError, ImportError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return None, error


def _difference(mine: Any, my_error: Exception | None, theirs: Any, their_error: Exception | None) -> str:
    """Describe how two results or errors differ; return "" if they agree up to rounding."""
    if my_error is not None:
        return f"raises {type(my_error).__name__}: {my_error}, NumPy computes it"
    if their_error is not None:
        return f"computes what NumPy refuses: {type(their_error).__name__}: {their_error}"
    if isinstance(mine, (list, tuple)) and isinstance(theirs, (list, tuple)):
        return next(filter(None, (_difference(a, None, b, None) for a, b in zip(mine, theirs, strict=False))), "")
    if not isinstance(mine, TensorArray) or not isinstance(theirs, (np.ndarray, np.generic)):
        return ""
    return _of_arrays(np.asarray(mine), np.asarray(theirs))


def _of_arrays(m: np.ndarray, t: np.ndarray) -> str:
    if m.dtype != t.dtype:
        return f"dtype {m.dtype}, NumPy gives {t.dtype}"
    if m.shape != t.shape:
        return f"shape {m.shape}, NumPy gives {t.shape}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Both libraries round. A sum's error grows with its terms; the result's largest value stands for their size.
        exact = t.dtype.kind not in "fc"
        tolerance = 0.0 if exact else 64 * float(np.finfo(t.dtype).eps)
        scale = float(np.max(np.abs(t[np.isfinite(t)]), initial=0.0)) if not exact else 0.0
        close = np.isclose(m, t, rtol=tolerance, atol=tolerance * scale, equal_nan=True) if not exact else m == t
    return "" if np.all(close) else f"{int(np.sum(~close))} of {t.size} elements differ"


class WatchedModule(NumpyModule):
    """The ``numpy`` of a script: it reports calls of its functions."""

    def __init__(self, module: types.ModuleType, report: ScriptReport) -> None:
        super().__init__(module)
        self._report = report

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if isinstance(value, types.ModuleType) and value.__name__.startswith("numpy"):
            return WatchedModule(value, self._report)
        found = super().__getattr__(name)
        if isinstance(value, type) or not callable(value) or name.startswith("__"):
            return found
        full = f"{self.__name__}.{name}".removeprefix("numpy.")
        return WatchedFunction(full, found, self._report)


class WatchedFunction:
    """A function of NumPy that reports its calls; for ufuncs, also those of its methods."""

    def __init__(self, name: str, function: Any, report: ScriptReport) -> None:
        self.__name__ = name
        self._function, self._report = function, report

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._report.call(self.__name__, self._function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._function, name)
        return WatchedFunction(f"{self.__name__}:{name}", found, self._report) if callable(found) else found


def run_script(path: str, arguments: list[str] | None = None) -> ScriptReport:
    """Run a script with tensors for NumPy's arrays, and return the report.

    Parameters
    ----------
    path : str
        The script. Its ``import numpy`` gives functions on tensors; modules that it imports still use NumPy itself.
    arguments : list of str, optional
        ``sys.argv[1:]`` of the script.
    """
    report = ScriptReport(path)
    watched = WatchedModule(np, report)

    def import_(name: str, *rest: Any) -> Any:
        top = name.partition(".")[0]
        found = builtins.__import__(name, *rest)
        if top != "numpy":
            return found
        return watched if found is np else rebound_module(found, watched)

    space = {
        "__name__": "__main__",
        "__file__": path,
        "__builtins__": {**vars(builtins), "__import__": import_},
    }
    code = compile(Path(path).read_text(encoding="utf-8"), path, "exec")
    before, sys.argv = sys.argv, [path, *(arguments or [])]
    folder = str(Path(path).resolve().parent)
    sys.path.insert(0, folder)
    arrays.OBSERVER = report
    try:
        exec(code, space)
    finally:
        arrays.OBSERVER = None
        sys.argv = before
        sys.path.remove(folder)
    return report
