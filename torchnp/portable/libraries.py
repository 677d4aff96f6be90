"""Find the array library for a namespace or its name."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.optional_deps import explained
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array

_NAMES = {
    "strict": "array_api_strict",
    "array-api-strict": "array_api_strict",
    "jax": "jax.numpy",
    "dask": "dask.array",
}
_COMPAT = ("numpy", "cupy", "torch", "dask.array")  # libraries that array-api-compat makes follow the standard


class TorchLibrary(ArrayLibrary):
    """torch itself as an array library."""

    kind = "torch"

    def from_numpy(self, a: np.ndarray) -> Array:
        if a.dtype.type.__module__ == "numpy":
            return super().from_numpy(a)
        bits = np.array(a, order="C").view(f"i{a.dtype.itemsize}")
        return self.xp.asarray(bits).view(self.theirs(a.dtype))

    def to_numpy(self, x: Array) -> np.ndarray:
        if isinstance(x, np.ndarray):
            return x
        x = x.detach().resolve_conj().resolve_neg().cpu()
        d = self.dtype_of(x)
        if d.type.__module__ == "numpy":
            return x.numpy()
        return x.contiguous().view(getattr(self.xp, f"int{8 * d.itemsize}")).numpy().view(d)

    def astype(self, x: Array, dtype: Any) -> Array:
        return x.to(self.theirs(dt.as_dtype(dtype)))


def library_for(xp: Any) -> ArrayLibrary:
    """Return the array library for a namespace or its name.

    Parameters
    ----------
    xp : module or str
        ``jax.numpy``, ``dask.array``, ``cupy``, ``torch``, ``array_api_strict``, another namespace that follows the
        standard, or a name: ``"jax"``, ``"dask"``.

    Returns
    -------
    ArrayLibrary
        The library, with the rows that run on it.

    Raises
    ------
    ModuleNotFoundError
        The library, or a package that it needs here, is not installed.
    TypeError
        The module does not follow the array API standard.
    RuntimeError
        JAX is set to 32 bits.
    """
    name = xp if isinstance(xp, str) else getattr(xp, "__name__", "")
    name = _NAMES.get(name, name).removeprefix("array_api_compat.")
    if name.split(".")[0] == "jax":
        try:
            from torchnp.portable.jax.library import JaxLibrary
        except ModuleNotFoundError as error:
            raise explained(error, "xp='jax'", "jax", "jax", "array_api_extra") from None
        return JaxLibrary()
    if name.split(".")[0] == "dask":
        try:
            from torchnp.portable.dask.library import DaskLibrary
        except ModuleNotFoundError as error:
            raise explained(error, "xp='dask'", "dask", "dask", "array_api_extra") from None
        return DaskLibrary()
    if name in _COMPAT:
        module = importlib.import_module(f"array_api_compat.{name}")
    else:
        module = importlib.import_module(name) if isinstance(xp, str) else xp
    if not hasattr(module, "permute_dims") or not hasattr(module, "asarray"):
        raise TypeError(f"{name or xp!r} does not follow the array API standard")
    return TorchLibrary(module) if name == "torch" else ArrayLibrary(module)


def prepare(xp: str) -> None:
    """Configure a library for programs (JAX needs 64-bit integers); a command cannot leave this to its user."""
    if xp.split(".")[0] == "jax":
        try:
            import jax
        except ModuleNotFoundError as error:
            raise explained(error, "--xp jax", "jax", "jax", "array_api_extra") from None
        jax.config.update("jax_enable_x64", True)
