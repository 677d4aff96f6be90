"""Programs on array libraries give torch's values: all models, plain and decomposed, eager and compiled."""

import io
import subprocess
import sys
import tempfile
import textwrap

import numpy as np
import pytest
import torch
from torch import nn

import torchnp
from torchnp.portable.library import ValueNeeded
from torchnp.tests.portable.exported import check, example, export, load, near
from torchnp.tests.portable.models import EXAMPLES

QUICK = ("mlp", "resnet", "gpt", "lstm", "gnn", "vae", "inplace", "cond")
LIBRARIES = ("array_api_strict", "torch", "jax")
NOT_TRACED = ("datadep",)  # its sizes depend on values


def library(name):
    if name == "jax":
        jax = pytest.importorskip("jax")
        jax.config.update("jax_enable_x64", True)
    return name


def skip_without_dtype(name, xp):
    if name == "bf16" and xp in ("array_api_strict", "numpy"):
        pytest.skip(reason="the standard has no bfloat16")


@pytest.mark.parametrize("xp", LIBRARIES)
@pytest.mark.parametrize("name", QUICK)
def test_a_model(name, xp):
    run_one(name, library(xp), core=False)


@pytest.mark.weekly
@pytest.mark.parametrize("xp", (*LIBRARIES, "numpy"))
@pytest.mark.parametrize("core", (False, True))
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_model(name, core, xp):
    skip_without_dtype(name, xp)
    run_one(name, library(xp), core)


def run_one(name, xp, core):
    exported = example(name, core)
    program = load(exported, xp)
    torchnp.manual_seed(0)
    check(program, program(*exported.inputs), exported)


def run_compiled(name, core):
    library("jax")
    import jax

    exported = example(name, core)
    program = load(exported, "jax")
    torchnp.manual_seed(0)
    given = [program.lib.from_numpy(x) for x in exported.inputs]
    result, _ = jax.jit(program.pure)(program.state | program.draw(*given), *given)
    check(program, result, exported)


@pytest.mark.parametrize("name", QUICK)
def test_a_model_compiled(name):
    run_compiled(name, core=False)


@pytest.mark.weekly
@pytest.mark.parametrize("core", (False, True))
@pytest.mark.parametrize("name", [n for n in EXAMPLES if n not in NOT_TRACED])
def test_every_model_compiled(name, core):
    run_compiled(name, core)


# ---------------------------------------------------------------- state


def test_buffers_come_back_as_new_state():
    exported = example("inplace")
    program = load(exported, "array_api_strict")
    before = program.state["h"]
    _, state = program.pure(program.state, program.lib.from_numpy(exported.inputs[0]))
    assert program.state["h"] is before
    near(program.lib.to_numpy(state["h"]), exported.buffers["h"])
    program(*exported.inputs)
    near(program.lib.to_numpy(program.state["h"]), exported.buffers["h"])


@pytest.mark.parametrize("core", (False, True))
def test_batch_norm_in_training_moves_its_statistics(core):
    exported = example("bntrain", core)
    program = load(exported, "array_api_strict")
    check(program, program(*exported.inputs), exported)
    for name, wanted in exported.buffers.items():
        near(program.lib.to_numpy(program.state[name]), wanted)


class WritesItsArgument(nn.Module):
    """Writes to a row of a cache that the caller owns."""

    def forward(self, cache, x):
        cache[1].copy_(x)
        return cache.sum()


def test_new_values_of_arguments():
    exported = export(WritesItsArgument(), (torch.zeros(2, 3), torch.ones(3)))
    program = load(exported, "array_api_strict")
    cache, x = exported.inputs
    assert float(program(cache, x)) == 3
    np.testing.assert_array_equal(program.lib.to_numpy(program.written["cache"]), [[0, 0, 0], [1, 1, 1]])
    assert not cache.any()


# ---------------------------------------------------------------- refusals


def test_sizes_that_depend_on_values_run_eagerly():
    for xp in ("array_api_strict", "torch"):
        run_one("datadep", xp, core=False)
    assert load(example("datadep"), "array_api_strict").tiers()["aten::nonzero"] == "eager"


def test_sizes_that_depend_on_values_are_refused_under_a_trace():
    library("jax")
    import jax

    program = load(example("datadep"), "jax")
    with pytest.raises(ValueNeeded) as error:
        jax.jit(program.pure)(program.state, program.lib.from_numpy(example("datadep").inputs[0]))
    text = str(error.value)
    assert "aten::index.Tensor gives a size that depends on values" in text
    assert "torch.where(mask, x, fill)" in text and "graph.nodes[" in text and "models.py" in text


def test_random_numbers_are_drawn_before_a_trace():
    library("jax")
    import jax

    program = load(example("vae"), "jax")
    x = program.lib.from_numpy(example("vae").inputs[0])
    with pytest.raises(ValueNeeded, match=r"p\.draw\(\*args\)"):
        jax.jit(program.pure)(program.state, x)
    _, state = jax.jit(program.pure)(program.state | program.draw(x), x)
    assert state.keys() == program.state.keys()


class Median(nn.Module):
    def forward(self, x):
        return torch.linalg.svdvals(x).sum()


def test_without_fallback_operators_on_the_host_are_refused():
    exported = export(Median(), (torch.randn(3, 3),))
    assert "host" in load(exported, "array_api_strict").tiers().values()
    with pytest.raises(NotImplementedError, match="array_api_strict has no rows of aten::linalg_svd"):
        load(exported, "array_api_strict", fallback=False)


def test_jax_needs_64_bits():
    pytest.importorskip("jax")
    code = """
        import io, sys, torchnp
        try:
            torchnp.load(sys.argv[1], xp="jax")
        except RuntimeError as error:
            print(error)
    """
    assert 'jax.config.update("jax_enable_x64", True)' in run_code(code, example("mlp").archive)


def test_exact_is_for_numpy():
    with pytest.raises(ValueError, match="exact=True is for NumPy"):
        load(example("mlp"), "array_api_strict", exact=True)


def test_a_module_that_is_no_array_library():
    with pytest.raises(TypeError, match="does not follow the array API standard"):
        load(example("mlp"), io)


def test_arguments_are_checked_as_in_torch():
    program = load(example("mlp"), "array_api_strict")
    x = example("mlp").inputs[0]
    with pytest.raises(RuntimeError, match="to be equal to 64, but got 3"):
        program(x[:, :3])
    with pytest.raises(RuntimeError, match="to be of dtype float32"):
        program(x.astype(np.float64))
    with pytest.raises(ValueError, match="Trying to flatten user inputs"):
        program(x, x)


# ---------------------------------------------------------------- without torch

BLOCK = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoTorch())
"""


def run_code(code, archive, blocked=False):
    """Run a program in a separate process, with the archive's path as its argument."""
    with tempfile.NamedTemporaryFile(suffix=".pt2") as file:
        file.write(archive)
        file.flush()
        text = (BLOCK if blocked else "") + textwrap.dedent(code)
        done = subprocess.run([sys.executable, "-c", text, file.name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("xp", ("array_api_strict", "jax"))
@pytest.mark.parametrize("name", ("mlp", "inplace"))
def test_without_torch(name, xp):
    library(xp)
    exported = example(name)
    code = f"""
        import numpy as np, torchnp
        if {xp!r} == "jax":
            import jax
            jax.config.update("jax_enable_x64", True)
        p = torchnp.load(sys.argv[1], xp={xp!r})
        print(float(p.lib.to_numpy(p(np.full({exported.inputs[0].shape}, 0.5, np.float32))).sum()))
        assert "torch" not in sys.modules
    """
    found = float(run_code(code, exported.archive, blocked=True))
    wanted = torchnp.load(io.BytesIO(exported.archive))(np.full(exported.inputs[0].shape, 0.5, np.float32)).sum()
    assert found == pytest.approx(float(wanted), rel=1e-4)
