"""Autograd graphs made under `NumpyMode` are freed together with their results, as in torch."""

from __future__ import annotations

import contextlib
import gc
import warnings
import weakref

import pytest

torch = pytest.importorskip("torch")
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

from opinfo_tests.generate.samples.opinfo import no_test_around  # noqa: E402
from torchnp.interop import NumpyMode  # noqa: E402
from torchnp.tests.interop.test_mode import same  # noqa: E402


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def undefined(result):
    return torch._C._functions.UndefinedGrad()(result)


def test_gradients_that_are_undefined():
    q = torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    with NumpyMode():
        attended = undefined(torch.nn.functional.scaled_dot_product_attention(q, q, q))
        assert torch.autograd.grad(attended, q, torch.zeros_like(attended), allow_unused=True) == (None,)
        inputs = [torch.randn(3, 2, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
        module = torch.nn.MultiheadAttention(4, 2, dtype=torch.float64)
        assert torch.autograd.gradcheck(lambda *args: module(*args, need_weights=False)[0], inputs)


def first_sample(op):
    with no_test_around():
        return next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=True)))


def backward_with(op, sample, defined, mode):
    """Return dtype and shape of a sample's gradients (None if there is none), if only some results get a gradient."""
    inputs = [sample.input, *sample.args, *sample.kwargs.values()]
    leaves = [t for t in tensors_of(inputs) if t.requires_grad]
    with mode:
        results = [t for t in tensors_of(op(sample.input, *sample.args, **sample.kwargs)) if t.requires_grad]
        given = [t if i in defined else undefined(t) for i, t in enumerate(results)]
        grads = torch.autograd.grad(given, leaves, [torch.ones_like(t) for t in given], allow_unused=True)
    return [None if g is None else (g.dtype, g.shape) for g in grads]


def test_every_backward_with_undefined_gradients():
    differing, tried = [], 0
    for op in op_db:
        if not op.supports_autograd or torch.float32 not in op.dtypes or "sparse" in op.name:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sample = first_sample(op)
            for defined in ((), (0,), (1,)):
                try:
                    want = backward_with(op, sample, defined, contextlib.nullcontext())
                except (RuntimeError, ValueError):  # torch itself refuses the call
                    continue
                tried += 1
                if backward_with(op, sample, defined, NumpyMode()) != want:
                    differing.append((op.name, defined))
    assert tried > 1000
    assert not differing


def tensors_of(x):
    if isinstance(x, torch.Tensor):
        return [x]
    return [t for v in x for t in tensors_of(v)] if isinstance(x, (list, tuple)) else []


def storages_of(results, but):
    """Return weak references to the storages of results, except those of the inputs."""
    known = {id(t.untyped_storage()) for t in tensors_of(but)}
    found = [t.untyped_storage() for t in tensors_of(results) if t.grad_fn is not None and t.layout is torch.strided]
    return [weakref.ref(storage) for storage in found if id(storage) not in known]


@pytest.mark.parametrize("options", [{}, {"crosscheck": True}], ids=["plain", "crosscheck"])
def test_results_are_freed_without_a_backward(no_collector, options):
    held, tried = [], 0
    for op in op_db:
        if not op.supports_autograd or torch.float32 not in op.dtypes:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sample = first_sample(op)
            inputs = [sample.input, *sample.args, *sample.kwargs.values()]
            try:
                with NumpyMode(**options):
                    results = op(sample.input, *sample.args, **sample.kwargs)
            # The mode has no sparse results, and a crosscheck cannot compare factors that are not unique.
            except RuntimeError:
                continue
        alive = storages_of(results, inputs)
        del results
        tried += 1
        if any(storage() is not None for storage in alive):
            held.append(op.name)
    assert tried > 400
    assert not held


def test_many_saved_results_take_the_memory_of_one(no_collector):
    w = torch.rand(1000, requires_grad=True)
    alive = []
    with NumpyMode():
        for _ in range(20):
            for function in (torch.exp, torch.relu, torch.sigmoid, torch.tanh, torch.sqrt, lambda x: x.softmax(0)):
                result = function(w)
                alive.append(weakref.ref(result.untyped_storage()))
    del result
    assert not any(storage() for storage in alive)


def what_detach_keeps():
    z = torch.randn(3, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    conjugate, imaginary = z.conj().detach(), z.conj().imag.detach()
    w = torch.ones(3, requires_grad=True)
    y = w * 2
    part = y[1:].detach()
    part.add_(1)
    written = w.exp()
    written.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        written.sum().backward()
    (first,) = torch.autograd.grad(w.tanh().sum(), w, create_graph=True)
    zeros = torch._efficientzerotensor(3).detach()
    counts = y._version, part._version, part.requires_grad, part._base is None, part.storage_offset()
    bits = conjugate.is_conj(), imaginary.is_neg(), zeros._is_zerotensor(), torch.ones(2, 3).t().detach().stride()
    moved = torch.func.jvp(lambda x: x.detach() * x, (torch.ones(2),), (torch.ones(2),))
    return conjugate, imaginary, y, part, counts, bits, moved, torch.autograd.grad(first.sum(), w)


@pytest.mark.parametrize("options", [{}, {"crosscheck": True}], ids=["plain", "crosscheck"])
def test_what_detach_keeps(options):
    expected = what_detach_keeps()
    with NumpyMode(**options) as mode:
        got = what_detach_keeps()
    same(got, expected)
    assert mode.summary()["bookkeeping"]["calls"] > 5
