"""Run an exported model on NumPy, JAX, Dask and array-api-strict, without torch: ``python run_everywhere.py MODEL.pt2``.

The model takes one array of floats with a batch in front. JAX also compiles it, differentiates it and trains it for some
steps.
"""

from __future__ import annotations

import importlib.util
import sys

import numpy as np

import torchnp


def main(path: str) -> None:
    """Print how far each library's results are from NumPy's, and JAX's losses."""
    assert importlib.util.find_spec("torch") is None, "this shows that torch is not needed"
    program = torchnp.load(path)
    (text,) = program.inputs.values()
    shape = [int(n) for n in text.split("[")[1].rstrip("]").split(", ")[1:]]
    x = np.random.default_rng(0).standard_normal((8, *shape), np.float32)
    wanted = program(x)

    def compare(name: str, found: np.ndarray) -> None:
        far = float(np.max(np.abs(found - wanted)))
        print(f"{name:24} {far:.1e}")
        assert far < 1e-5 * np.max(np.abs(wanted))

    on_strict = torchnp.load(path, xp="array_api_strict")
    compare("array-api-strict", on_strict.lib.to_numpy(on_strict(x)))

    import dask.array as da

    lazy = da.from_array(x, chunks=(3, *shape))
    compare("dask.array", torchnp.load(path, xp="dask")(lazy).compute())
    compare("map_batches", torchnp.map_batches(path, lazy).compute())

    import jax

    jax.config.update("jax_enable_x64", True)
    on_jax = torchnp.load(path, xp="jax")
    compare("jax", np.asarray(on_jax(x)))
    compare("jax.jit", np.asarray(jax.jit(on_jax.pure)(on_jax.state, x)[0]))
    floats = {k: v for k, v in on_jax.state.items() if jax.numpy.issubdtype(v.dtype, jax.numpy.floating)}
    rest = {k: v for k, v in on_jax.state.items() if k not in floats}

    @jax.jit
    def step(state: dict) -> tuple:
        loss = lambda s: jax.numpy.mean((on_jax.pure(s | rest, x)[0] - 1) ** 2)
        value, gradients = jax.value_and_grad(loss)(state)
        return value, {k: state[k] - 0.05 * gradients[k] for k in state}

    losses = []
    for _ in range(10):
        value, floats = step(floats)
        losses.append(float(value))
    print(f"jax.grad, 10 steps       loss {losses[0]:.3f} to {losses[-1]:.3f}")
    assert losses[-1] < losses[0]
    assert "torch" not in sys.modules


if __name__ == "__main__":
    main(sys.argv[1])
