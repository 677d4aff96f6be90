"""Functions that JAX has and the standard lacks, and activations with well-defined gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy import special

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, Row, portable


def _of_floats(name: str, function: Row) -> None:
    portable(name, on="jax")(lambda lib, self: lib.in_opmath(function, lib.to_float(self)))


_of_floats("aten::erf", special.erf)
_of_floats("aten::erfc", special.erfc)
_of_floats("aten::erfinv", special.erfinv)
_of_floats("aten::lgamma", special.gammaln)
_of_floats("aten::digamma", special.digamma)
_of_floats("aten::sigmoid", jax.nn.sigmoid)
_of_floats("aten::silu", jax.nn.silu)
_of_floats("aten::exp2", jnp.exp2)
_of_floats("aten::rsqrt", jax.lax.rsqrt)


@portable("aten::relu", on="jax")
def relu(lib: ArrayLibrary, self: Array) -> Array:
    """ReLU whose gradient at 0 is 0, as in torch."""
    return jax.nn.relu(self)


@portable("aten::_softmax", on="jax")
def softmax(lib: ArrayLibrary, self: Array, dim: int, half_to_float: bool) -> Array:
    x = lib.astype(self, dt.float32) if half_to_float else self
    return lib.in_opmath(lambda v: jax.nn.softmax(v, axis=dim) if v.ndim else jnp.ones_like(v), x)


@portable("aten::_log_softmax", on="jax")
def log_softmax(lib: ArrayLibrary, self: Array, dim: int, half_to_float: bool) -> Array:
    x = lib.astype(self, dt.float32) if half_to_float else self
    return lib.in_opmath(lambda v: jax.nn.log_softmax(v, axis=dim) if v.ndim else jnp.zeros_like(v), x)
