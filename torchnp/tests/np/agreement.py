"""Compares a result on tensors with NumPy's: value, dtype, shape, and error."""

import warnings

import numpy as np
import torch

from torchnp.np.dtypes import from_array

# Both libraries round each step, so the last digits of a float32 sum of 100 terms may differ by some units.
ULPS = 64


def on_tensor(x):
    if isinstance(x, np.ndarray):
        return from_array(x.copy())
    if isinstance(x, (list, tuple)):
        return type(x)(map(on_tensor, x))
    return x


def attempt(function, args, kwargs):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*args, **kwargs), None
        except Exception as error:
            return None, error


def as_array(x):
    if isinstance(x, torch.Tensor):
        return np.array(x.detach().resolve_conj().resolve_neg())
    return np.asarray(x)


def disagreement(theirs, mine):
    """Return how the result on tensors differs from NumPy's, or ""."""
    if isinstance(theirs, (list, tuple)):
        if not isinstance(mine, (list, tuple)) or len(theirs) != len(mine):
            return f"{mine}, NumPy gives {theirs}"
        return next(filter(None, (disagreement(t, m) for t, m in zip(theirs, mine, strict=True))), "")
    if isinstance(mine, torch.dtype):
        mine = np.dtype(str(mine).removeprefix("torch."))
    if theirs is None or isinstance(theirs, (str, np.dtype)):
        return "" if theirs == mine else f"{mine}, NumPy gives {theirs}"
    t, m = np.asarray(theirs), as_array(mine)
    if t.dtype != m.dtype or t.shape != m.shape:
        return f"{m.dtype}{m.shape}, NumPy gives {t.dtype}{t.shape}"
    if t.dtype.kind not in "fc":
        return "" if np.array_equal(t, m) else f"{m}, NumPy gives {t}"
    step = ULPS * float(np.finfo(t.dtype).eps)
    scale = float(np.max(np.abs(t[np.isfinite(t)]), initial=0.0))
    with np.errstate(all="ignore"):
        parts = [(t, m)] if t.dtype.kind == "f" else [(t.real, m.real), (t.imag, m.imag)]
        close = all(np.allclose(b.astype(float), a.astype(float), step, step * scale, equal_nan=True) for a, b in parts)
    return "" if close else f"{m}, NumPy gives {t}"


def compare(numpys, ours, args, kwargs=None):
    """Call both, and return how they differ in results, error classes, or writes to arguments."""
    kwargs = kwargs or {}
    copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
    tensors = [on_tensor(a) for a in args]
    out = kwargs.get("out")
    theirs, error = attempt(numpys, copies, {**kwargs, **({"out": out.copy()} if isinstance(out, np.ndarray) else {})})
    mine, my_error = attempt(ours, tensors, {k: on_tensor(v) for k, v in kwargs.items()})
    if error or my_error:
        classes = [{c.__name__.lstrip("_") for c in type(e).__mro__} for e in (error, my_error)]
        same = (
            error
            and my_error
            and (type(error).__name__.lstrip("_") in classes[1] or type(my_error).__name__ in classes[0])
        )
        return "" if same else f"{my_error!r} {mine}, NumPy gives {error!r} {theirs}"
    return disagreement(theirs, mine) or disagreement(copies, tensors)
