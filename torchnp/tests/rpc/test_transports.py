"""The remote tensor computes the same as torch: one suite over both transports."""

from __future__ import annotations

import time

import pytest
import torch
import torch.utils.checkpoint
from torch.nn import functional as F

from torchnp import rpc

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128,
    torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz,
]  # fmt: skip


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return torch.equal(a.contiguous().reshape(-1).view(torch.uint8), b.contiguous().reshape(-1).view(torch.uint8))


# ---------------------------------------------------------------- there and back


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_comes_back_bit_for_bit(session, dtype):
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (3 * 4 * dtype.itemsize,), dtype=torch.uint8)
    for x in (raw.view(dtype).reshape(3, 4), raw.view(dtype)[5], raw.view(dtype)[:0]):
        back = session.send(x).publish()
        assert type(back) is torch.Tensor
        assert same_bits(back, x)


def test_layouts_come_back_with_their_values_and_stay_on_the_server(session):
    x = torch.arange(24.0).reshape(2, 3, 4)
    for t in (x.transpose(0, 2), x[:, 1:], x[::2, :, ::3], x.expand(5, 2, 3, 4), x.permute(1, 2, 0)[1]):
        h = session.send(t)
        assert h.stride() == t.clone().stride()
        assert torch.equal(h.publish(), t)
    for size, stride in (((1,), (0,)), ((1, 1), (0, 0)), ((3, 1), (1, 0)), ((1, 3), (0, 1)), ((1, 2), (7, 0))):
        t = torch.full(size, 3.0).as_strided(size, stride)
        assert torch.equal((session.send(t) + t).publish(), t + t)
    y = x.permute(2, 0, 1)
    h = session.send(y)
    assert torch.equal(torch.as_strided(h, (6, 4), (4, 1)).publish(), torch.as_strided(y, (6, 4), (4, 1)))
    channels_last = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    h = session.send(channels_last)
    assert h.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal((h * 2).publish(), channels_last * 2)
    assert (h * 2).stride() == (channels_last * 2).stride()


def test_tensors_larger_than_a_frame(session):
    x = torch.randn(700_001)
    before = session.stats
    h = session.send(x)
    assert torch.equal((h + 1).publish(), x + 1)
    after = session.stats
    assert after.bytes_sent - before.bytes_sent >= x.nbytes
    assert after.bytes_received - before.bytes_received >= x.nbytes


def test_metadata_never_leaves_the_client(session):
    session.sync()
    h = session.send(torch.zeros(3, 4), requires_grad=True)
    before = session.stats.round_trips
    assert h.shape == (3, 4)
    assert h.stride() == (4, 1)
    assert h.dim() == 2
    assert h.dtype == torch.float32
    assert len(h) == 3
    assert h.device.type == "cpu"
    assert h.numel() == 12
    assert h.is_leaf
    assert h.requires_grad
    assert "RPCTensor(shape=(3, 4), dtype=float32" in repr(h)
    assert "requires_grad=True" in str(h)
    assert "grad_fn=<MulBackward0>" in f"{h * 2}"
    assert session.stats.round_trips == before


def test_numbers_stay_numbers_and_small_tensors_travel(session):
    x = torch.randn(3, 4)
    h = session.send(x)
    i = torch.arange(3)
    hi = session.send(i)
    for f in (
        lambda x, i: x * 2,
        lambda x, i: i * 2.5,
        lambda x, i: torch.where(i > 0, i, 0.0),
        lambda x, i: torch.where(i > 0, i, torch.tensor(0.0, dtype=torch.float64)),
        lambda x, i: x * torch.tensor(2.0),
        lambda x, i: torch.tensor([1.0, 2, 3, 4]) + x,
        lambda x, i: x + torch.ones(4, dtype=torch.float64),
        lambda x, i: x + torch.ones(()).expand(4),
        lambda x, i: torch.cat([x, torch.zeros(1, 4)]),
        lambda x, i: i + True,
        lambda x, i: x[torch.tensor([2, 0])],
        lambda x, i: x[torch.tensor([True, False, True])],
        lambda x, i: x * (1 + 2j),
    ):
        want, got = f(x, i), f(h, hi)
        assert got.shape == want.shape
        torch.testing.assert_close(got.publish(), want, rtol=0, atol=0)


def test_large_plain_tensors_are_sent_on_purpose_only(session):
    session.auto_send_bytes = 1000
    h = session.send(torch.zeros(1000))
    with pytest.raises(RuntimeError, match=r"4,000 bytes.*session\.send"):
        h + torch.zeros(1000)


# ---------------------------------------------------------------- views, in-place, autograd


def through_slices(w):
    x = w * 2
    x[1:].mul_(3)
    return x.sum()


def through_views_of_views(w):
    x = w * 2
    y = x.view(5, 1).squeeze(1)
    y[0].add_(w[2])
    x[1:].mul_(3)
    p, q = x.split([2, 3])
    return (x * x).sum() + (y**3).sum() + (q * x[:3]).sum() + (p * w[:2]).sum()


def with_detach(w):
    x = w * 2
    d = x.detach()
    d.add_(1)
    return (x * w).sum()


def copied_into_a_part(w):
    x = torch.zeros_like(w)
    x[1:4].copy_(w[:3] ** 2)
    x[0] = w[4]
    return (x * w).sum()


def with_out(w):
    out = torch.empty_like(w)
    with torch.no_grad():
        torch.add(w, w, out=out)
        torch.mul(w[1:], 5, out=out[1:])
    return (out * w).sum()


def strided_again(w):
    x = (w * 2).as_strided((2, 2), (2, 1), 1)
    return (x**2).sum()


def changed_strides(w):
    x = (w * 2).unsqueeze(0).clone()
    x.t_()
    x.squeeze_(1)
    x.unsqueeze_(0)
    return (x * w).sum()


def lists(w):
    a, b = w * 2, w * 3
    c, d = torch._foreach_add([a, b], [w, w], alpha=2)
    return (c * d).sum()


@pytest.mark.parametrize(
    "function",
    [
        through_slices,
        through_views_of_views,
        with_detach,
        copied_into_a_part,
        with_out,
        strided_again,
        changed_strides,
        lists,
    ],
    ids=lambda f: f.__name__,
)
def test_gradients_through_views_and_writes(session, function):
    w = torch.randn(5, dtype=torch.float64)
    mine = w.clone().requires_grad_()
    value = function(mine)
    value.backward()
    theirs = session.send(w, requires_grad=True)
    remote = function(theirs)
    remote.backward()
    torch.testing.assert_close(remote.publish(), value.detach())
    torch.testing.assert_close(theirs.grad.publish(), mine.grad)


def test_in_place_gives_the_same_handle_and_views_share(session):
    x = session.send(torch.zeros(3, 4))
    assert x.add_(1) is x
    assert x.mul_(2.0).sub_(1) is x
    y = x[1:]
    assert y._base is x
    y.fill_(7)
    assert y._version == x._version == 4
    want = torch.ones(3, 4)
    want[1:] = 7
    assert torch.equal(x.publish(), want)
    torch._foreach_add_([x, torch.ones_like(x)], 1)
    assert torch.equal(x.publish(), want.add_(1))
    out = torch.empty_like(x)
    assert torch.add(x, 1, out=out) is out
    assert torch.equal(out.publish(), want + 1)


def test_a_stale_version_is_noticed(session):
    w = session.send(torch.ones(3), requires_grad=True)
    x = w * 2
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def _set(x, value):
    x[0] = value


CONJUGATES = {
    "setitem": lambda z: _set(z.conj(), 5 + 2j),
    "setitem of a view": lambda z: _set(z.conj()[1:], 5 + 2j),
    "setitem of a tensor": lambda z: _set(z.conj(), torch.tensor(1 + 2j, dtype=torch.complex128)),
    "mul_": lambda z: z.mH.mul_(2 + 1j),
    "mul_ by itself": lambda z: z.conj().mul_(z.conj()),
    "add_": lambda z: z.conj().add_(1j),
    "imag": lambda z: z.imag.add_(1),
    "real": lambda z: z.real.fill_(7),
    "imag of conj": lambda z: z.conj().imag.add_(3),
    "imag of conj filled": lambda z: _set(z.conj().imag, 3),
    "real of conj": lambda z: z.conj().real.mul_(3),
    "negative": lambda z: torch._neg_view(z).add_(4),
    "both": lambda z: torch._neg_view(z.conj()).copy_(z.clone() * 2j),
    "copy_": lambda z: z.conj().copy_(torch.arange(3)),
    "copy_ from": lambda z: z.copy_(z.clone().conj()),
    "conj_physical_": lambda z: z.conj().conj_physical_(),
    "chunks": lambda z: z.conj().chunk(3)[1].mul_(1j),
    "t_": lambda z: z.conj().t_().add_(1j),
    "diagonal": lambda z: z.mH.diagonal().mul_(1j),
    "matmul": lambda z: z.add_(z.mH @ z),
    "twice": lambda z: z.conj().conj().add_(1j),
    "vdot": lambda z: z.add_(torch.vdot(z[0].conj(), z[1])),
    "detached": lambda z: z.conj().detach().mul_(1j),
}


@pytest.mark.parametrize("name", CONJUGATES)
def test_what_is_written_through_lazy_conjugates_arrives(session, name):
    z = torch.randn(3, 3, dtype=torch.complex128)
    h = session.send(z)
    CONJUGATES[name](h)
    CONJUGATES[name](z)
    torch.testing.assert_close(h.publish(), z)
    torch.testing.assert_close(h.mH.publish(), z.mH.resolve_conj())
    assert h.mH.is_conj() and h.imag.is_neg() == z.imag.is_neg()


@pytest.mark.parametrize("name", CONJUGATES)
def test_gradients_through_lazy_conjugates(session, name):
    z = torch.randn(3, 3, dtype=torch.complex128)
    grads = []
    for leaf in (z.clone().requires_grad_(), session.send(z, requires_grad=True)):
        y = leaf * (1 + 2j)
        try:
            CONJUGATES[name](y)
            (y.conj() * y * y.imag).sum().abs().backward()
            grad = leaf.grad.resolve_conj()
            grads.append(grad if grads == [] else grad.publish())
        except RuntimeError as error:
            grads.append(str(error).partition(":")[0])
    if isinstance(grads[0], str):
        assert grads[1] == grads[0]
    else:
        torch.testing.assert_close(grads[1], grads[0])


@pytest.mark.parametrize("product", ["dot", "vdot", "inner"])
@pytest.mark.parametrize("lazy", [(False, False), (True, False), (False, True), (True, True)])
def test_a_product_of_conjugates_is_as_lazy_as_torchs(session, product, lazy):
    found = []
    for place in (torch.clone, session.send):
        factors = [torch.tensor(v).requires_grad_() for v in ([1 + 2j, 3 - 1j], [2 - 1j, 1j])]
        given = [place(f.detach()).requires_grad_() for f in factors]
        out = getattr(torch, product)(*(g.conj() if c else g for g, c in zip(given, lazy)))
        out.real.backward()
        values = [out.detach().resolve_conj(), *(g.grad.resolve_conj() for g in given)]
        found.append((out.is_conj(), out.is_neg(), [v.publish() if place is not torch.clone else v for v in values]))
    (conj, neg, values), other = found
    assert (conj, neg) == other[:2]
    for v, w in zip(values, other[2]):
        torch.testing.assert_close(v, w)


def test_lazy_conjugates_follow_what_they_are_views_of_and_refuse_the_rest(session):
    z = torch.randn(3, dtype=torch.complex128)
    h = session.send(z)
    c = h.conj()
    h.mul_(2)
    torch.testing.assert_close((c + 1).publish(), (z * 2).conj() + 1)
    with pytest.raises(RuntimeError, match="view_as_real doesn't work on unresolved conjugated tensors"):
        torch.view_as_real(c)
    with pytest.raises(rpc.HandleError, match="lazy conjugate"):
        torch.mm(h[:, None], h[None], out=session.send(torch.zeros(3, 3, dtype=z.dtype)).conj())
    other = session.send(z)
    other.data = h.conj()
    torch.testing.assert_close(other.publish(), (z * 2).conj().resolve_conj())


def test_second_derivatives_hooks_and_functions(session):
    w = torch.randn(4, dtype=torch.float64)
    seen = []

    def run(x):
        y = (x**3).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        g.register_hook(lambda v: seen.append(type(v).__name__))
        (g * x).sum().backward()
        return x.grad

    want = run(w.clone().requires_grad_())
    got = run(session.send(w, requires_grad=True))
    torch.testing.assert_close(got.publish(), want)
    assert seen == ["Tensor", "RPCTensor"]


def test_inference_mode(session):
    x, w = torch.randn(2, 3), torch.randn(4, 3)
    with torch.inference_mode():
        h, hw = session.send(x), session.send(w)
        got = F.linear(h, hw).reshape(8).to(torch.float64).contiguous()
        want = F.linear(x, w).reshape(8).to(torch.float64)
        torch.testing.assert_close(got.publish(), want, rtol=1e-4, atol=1e-6)  # for float32


# ---------------------------------------------------------------- sending


def test_what_waits_is_sent_when_nothing_follows(session):
    h = session.send(torch.zeros(3))
    session.sync()
    sent = session.stats.bytes_sent
    h.add_(1)
    deadline = time.monotonic() + 5
    while session.stats.bytes_sent == sent and time.monotonic() < deadline:
        time.sleep(0.005)
    assert session.stats.bytes_sent > sent
    assert session.stats.round_trips == 1


def test_operators_are_counted_by_overload(session):
    h = session.send(torch.zeros(3))
    (h + 1) * (h + 2)
    assert session.overloads == {"aten::add.Tensor": 2, "aten::mul.Tensor": 1}
    assert session.stats.ops == 3
