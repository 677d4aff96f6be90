"""NumpyMode with operators of ``torch.library``; and errors, warnings and dtypes of the mode that are torch's own."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")

from torchnp.interop import MissingKernelError, NumpyMode  # noqa: E402
from torchnp.tests.interop.test_mode import same  # noqa: E402

# ---------------------------------------------------------------- operators of libraries


@pytest.fixture(scope="module")
def ops():
    library = torch.library.Library("torchnp_bodies", "DEF")
    library.define("on_cpu(Tensor x) -> Tensor")
    library.impl("on_cpu", lambda x: x.sin() + 1, "CPU")
    library.define("for_all(Tensor x) -> Tensor")
    library.impl("for_all", lambda x: x.cos() + 1, "CompositeExplicitAutograd")
    library.define("taken_apart(Tensor x) -> Tensor")
    library.impl("taken_apart", lambda x: x.exp() + 1, "CompositeImplicitAutograd")
    library.define("written_(Tensor(a!) x) -> Tensor(a!)")
    library.impl("written_", lambda x: x.add_(1), "CPU")
    library.define("part(Tensor(a) x) -> Tensor(a)")
    library.impl("part", lambda x: x[1:], "CompositeExplicitAutograd")
    library.define("made(int n) -> Tensor")
    library.impl("made", torch.ones, "CompositeExplicitAutograd")
    library.define("overloads.several(Tensor x) -> (Tensor, Tensor[])")
    library.impl("overloads.several", lambda x: (x * 2, [x + 1]), "CPU")
    library.define("without(Tensor x) -> Tensor")
    library.define("elsewhere(Tensor x) -> Tensor")
    library.impl("elsewhere", lambda x: x, "CUDA")
    yield torch.ops.torchnp_bodies
    library._destroy()


@pytest.mark.parametrize("crosscheck", [False, True])
@pytest.mark.parametrize("name", ["on_cpu", "for_all", "taken_apart", "written_", "part", "made", "overloads"])
def test_bodies_in_python_are_run_by_kernels(ops, name, crosscheck):
    make = lambda: 3 if name == "made" else torch.arange(3.0)
    want = getattr(ops, name)(make())
    x = make()
    with NumpyMode(crosscheck=crosscheck) as mode:
        got = getattr(ops, name)(x)
    same(got, want)
    assert not mode.fallbacks and sum(n for op, n in mode.calls.items() if op.startswith("aten::")) > 0
    assert (got is x) == (name == "written_")


@pytest.mark.parametrize("name", ["without", "elsewhere"])
def test_operators_without_a_body_for_the_cpu_are_missing(ops, name):
    with NumpyMode(), pytest.raises(MissingKernelError, match=f"torchnp_bodies::{name}: the table has no kernel"):
        getattr(ops, name)(torch.ones(2))


# ---------------------------------------------------------------- torch's words


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[1:33].reshape(4, 8)[:, ::2].view(torch.float64),
        lambda x: x[1:33].view(torch.float64),
        lambda x: x[1:37].view(4, 9)[:, :8].view(torch.float64),
        lambda x: x[:36].view(4, 9)[:, :8].view(torch.float64),
        lambda x: x[1:].as_strided((4, 3), (3, 2)).view(torch.complex64),
        lambda x: x[1:3].view(torch.complex128),
        lambda x: x[:32].view(4, 8)[:, ::2].view(torch.int16),
        lambda x: x[1].view(torch.int16),
    ],
)
def test_views_of_other_dtypes_are_refused_in_torchs_order(view):
    x = torch.arange(40.0)
    with pytest.raises(RuntimeError) as want:
        view(x)
    with NumpyMode(), pytest.raises(RuntimeError) as got:
        view(x)
    assert str(got.value) == str(want.value)


def test_duals_in_inference_mode():
    import torch.autograd.forward_ad as fwad

    def program():
        with fwad.dual_level():
            dual = fwad.make_dual(torch.ones(2), torch.full((2,), 3.0))
            with torch.inference_mode():
                made = fwad.make_dual(torch.ones(2), torch.ones(2))
                return made, *fwad.unpack_dual(dual), *fwad.unpack_dual(dual * 2)

    want = program()
    with NumpyMode():
        same(program(), want)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_complex_fills_under_a_default_dtype(dtype):
    torch.set_default_dtype(dtype)
    try:
        calls = [
            lambda: torch.full((2,), 1j),
            lambda: torch.full((1,), 1.5),
            lambda: torch.full((2,), 2j, dtype=torch.complex32),
            lambda: torch.ones(2).bool() * 1j,
            lambda: torch.full((2,), True),
        ]
        for call in calls:
            try:
                want = call()
            except NotImplementedError as refused:  # torch 2.14 has a complex dtype of bfloat16, but cannot fill it
                assert "BComplex32" in str(refused)
                continue
            with NumpyMode():
                same(call(), want)
    finally:
        torch.set_default_dtype(torch.float32)


def test_numbers_that_no_float_holds():
    with warnings.catch_warnings(), NumpyMode():
        warnings.simplefilter("error")
        assert (torch.ones(2) + 1e60).isinf().all()
        assert torch.scalar_tensor(2**63, dtype=torch.uint64).item() == 2**63


HALVES = """
import sys, warnings, torch
MODE, DEVICE, CALL = sys.argv[1:]
from torchnp.interop import NumpyMode
import contextlib
if DEVICE == "np":
    import torchnp.device
x = torch.ones(2, 2, dtype=torch.float16, device=DEVICE)
with warnings.catch_warnings(record=True) as caught, NumpyMode() if MODE == "1" else contextlib.nullcontext():
    warnings.simplefilter("always")
    eval(CALL), eval(CALL)
print([str(w.message).partition(" (")[0] for w in caught if "ComplexHalf" in str(w.message)])
"""


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("torch.zeros(2, dtype=torch.complex32, device=DEVICE)", id="zeros"),
        pytest.param("x.to(torch.complex32)", id="to", marks=pytest.mark.weekly),
        pytest.param("x.view(torch.complex32)", id="view", marks=pytest.mark.weekly),
    ],
)
def test_torch_warns_of_complex_halves_once(call):
    ways = [("0", "cpu"), ("1", "cpu"), ("0", "np")]
    started = [
        subprocess.Popen([sys.executable, "-c", HALVES, *way, call], stdout=subprocess.PIPE, text=True) for way in ways
    ]
    want, *got = [process.communicate()[0] for process in started]
    assert got == [want, want]
    assert want.count("ComplexHalf support is experimental") == (0 if "view" in call else 1)
