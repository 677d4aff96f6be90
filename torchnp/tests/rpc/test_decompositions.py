"""The client decomposes an operator exactly if torch's dispatcher does so on the CPU, and with the same function."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F

import torchnp  # noqa: F401  the rows of its libraries
from torchnp import rpc
from torchnp.engine.tensor.overload_info import plan_of

# Composite operators that the client answers or refuses directly; it decomposes all others.
TREATED = {
    "aten::set_.source_Tensor_storage_offset",
    "aten::set_data",
    "aten::argwhere",
    "aten::item",
    "aten::is_nonzero",
    "aten::swapdims_",
    "aten::swapaxes_",
}


def overloads():
    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        if space in ("aten", "prims"):
            packet, _, overload = rest.partition(".")
            func = getattr(getattr(getattr(torch.ops, space), packet), overload or "default", None)
            if func is not None:  # the other overloads are TorchScript's own, for Python numbers and strings
                yield name, func


def test_what_is_taken_apart_is_what_the_cpu_takes_apart():
    """The reference is the dispatcher's table: on the CPU it runs a composite kernel, which it calls a math kernel."""
    theirs, ours = set(), set()
    for name, func in overloads():
        if re.search(r"^CPU: .*\[math kernel\]$", torch._C._dispatch_dump_table(name), re.MULTILINE):
            theirs.add(name)
        if plan_of(func).special == "decompose":
            ours.add(name)
    assert len(theirs) > 700
    assert ours <= theirs and theirs - ours == TREATED


@pytest.fixture(scope="module")
def session():
    with rpc.local() as made:
        yield made


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_nearest_upsampling_by_any_factor(session, dims, mode, inference):
    """For some sizes close to n or 2n, torch's decomposition for tracing takes other pixels than its CPU kernel."""
    for n in (3, 5, 12):
        x = torch.arange(2.0 * n**dims).reshape(1, 2, *[n] * dims)
        h = session.send(x)
        for factor in (0.34, 0.99, 1.01, 1.3, 1.9, 2.05, 2.1, 2.4):
            if int(n * factor) == 0:
                continue
            for recomputed in (None, True):
                options = {"scale_factor": factor, "mode": mode, "recompute_scale_factor": recomputed}
                with torch.inference_mode(inference):
                    found, want = F.interpolate(h, **options), F.interpolate(x, **options)
                assert found.stride() == want.stride()
                assert torch.equal(found.publish(), want), (n, factor, recomputed)


def test_gradients_of_nearest_upsampling(session):
    x = torch.arange(50.0).reshape(1, 2, 5, 5)
    weight = torch.arange(200.0).reshape(1, 2, 10, 10)
    grads = []
    for leaf, w in ((x.clone(), weight), (session.send(x), session.send(weight))):
        leaf.requires_grad_()
        (F.interpolate(leaf, scale_factor=2.05, mode="nearest") * w).sum().backward()
        grads.append(leaf.grad)
    assert torch.equal(grads[1].publish(), grads[0])


# Operators that also have a decomposition in Python; in inference mode it is left to the client.
BOTH = {
    "matmul": (lambda x: torch.matmul(x, x.mT), (2, 3, 4)),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=1.3, mode="bilinear"), (1, 2, 5, 5)),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=1.3, mode="bicubic"), (1, 2, 5, 5)),
    "antialiased": (lambda x: F.interpolate(x, scale_factor=0.7, mode="bicubic", antialias=True), (1, 2, 5, 5)),
    "trilinear": (lambda x: F.interpolate(x, scale_factor=1.3, mode="trilinear"), (1, 2, 3, 4, 5)),
    "linear": (lambda x: F.interpolate(x, scale_factor=1.3, mode="linear"), (1, 2, 5)),
    "stft": (lambda x: torch.stft(x, 8, 2, return_complex=True, window=torch.ones(8)), (2, 32)),
    "one_hot": (lambda x: F.one_hot(x.long() % 5, 5), (2, 3)),
    "broadcast": (lambda x: torch.broadcast_tensors(x, x[:1])[1], (2, 3)),
    "unsafe_chunk": (lambda x: x.unsafe_chunk(2)[1], (4, 3)),
    "tensor_split": (lambda x: torch.tensor_split(x, torch.tensor([1, 3]))[1], (4, 3)),
    "dropout": (lambda x: F.dropout(x, 0.5, training=False), (4, 3)),
    "gelu": (lambda x: F.mish(F.silu(x)), (4, 3)),
}


@pytest.mark.parametrize("name", BOTH)
def test_in_inference_mode_too(session, name):
    run, shape = BOTH[name]
    x = torch.arange(float(torch.Size(shape).numel())).reshape(shape) / 7
    want = run(x)
    for inference in (False, True):
        with torch.inference_mode(inference):
            found = run(session.send(x))
        torch.testing.assert_close(found.publish(), want)
        assert found.stride() == want.stride()


def test_one_hot_without_classes_is_refused_in_inference_mode(session):
    with torch.inference_mode(), pytest.raises(rpc.ValueAccessError, match="num_classes="):
        F.one_hot(session.send(torch.tensor([0, 2])))


SEQUENCES = {
    "other dtypes": ([torch.ones(2), torch.ones(3).to(torch.complex64)],),
    "booleans and float8": ([torch.ones(2).bool(), torch.ones(3).to(torch.float8_e4m3fn)], False, -1.5),
    "broadcast": ([torch.ones(2, 2), torch.ones(3, 1)], True),
    "bogus side": ([torch.ones(2), torch.ones(3)], False, 0.0, "bogus"),
    "overflow": ([torch.ones(2, dtype=torch.uint16)], False, -1.5),
    "no dimensions": ([torch.ones(())],),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_padded_sequences_of_all_kinds(session, name):
    def padded(sequences, *options):
        try:
            return torch.ops.aten.pad_sequence(sequences, *options)
        except RuntimeError as error:
            return str(error)

    sequences, *options = SEQUENCES[name]
    found, want = padded([session.send(x) for x in sequences], *options), padded(sequences, *options)
    if isinstance(want, str):
        assert found == want
    else:
        assert found.dtype == want.dtype and torch.equal(found.publish(), want)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.int8, torch.bool, torch.complex64, torch.uint16]
)
@pytest.mark.parametrize("n", [None, 0, 1, 4, -1])
def test_powers_of_all_dtypes(session, n, dtype):
    def powers(x):
        try:
            return torch.vander(x, n)
        except RuntimeError as error:
            return str(error)

    x = torch.tensor([1, 2, 3]).to(dtype)
    found, want = powers(session.send(x)), powers(x)
    if isinstance(want, str):
        assert found == want
    else:
        assert found.dtype == want.dtype and torch.equal(found.publish(), want)


# Operators for which Python's meta function gives another dtype or number of results than the CPU.
OTHERWISE = {
    "layer_norm": lambda x: torch.native_layer_norm(x, [3], None, None, 1e-5),
    "mixed layer_norm": lambda x: torch.native_layer_norm(x, [3], x[0].float(), None, 1e-5),
    "dropout of nothing": lambda x: torch.native_dropout(x[:0], 0.5, True),
    "mse_loss": lambda x: torch.ops.aten.mse_loss_backward(x, x.float(), x.float(), 0),
    "mish": lambda x: torch.ops.aten.mish_backward(x.float(), x),
    "nansum": lambda x: torch.nansum(x, ()),
    "normal": lambda x: torch.normal(x, x.abs().double()),
    "targets in uint8": lambda x: F.nll_loss(x.float(), (x[:, 0] * 0 + 2).to(torch.uint8)),
    "a bound": lambda x: torch.randint_like(x.float(), (x[0, 0] * 0 + 5).long()),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_the_meta_device_has_otherwise(session, name):
    x = torch.tensor([[-1.5, 0.25, 2.0], [0.5, -0.75, 1.0]], dtype=torch.bfloat16)
    results = []
    for made in (session.send(x), x):
        torch.manual_seed(0)
        out = OTHERWISE[name](made)
        results.append(out if isinstance(out, tuple) else (out,))
    for found, want in zip(*results, strict=True):
        assert (found.dtype, found.shape) == (want.dtype, want.shape)
        assert found.publish().dtype == want.dtype
