"""``x[i]`` where ``i`` is a 0-d handle: the value stays on the server, and uses that would differ from a view raise an
error."""

from __future__ import annotations

import copy

import pytest
import torch

from torchnp import rpc

I, J = torch.tensor(1), torch.tensor(-1, dtype=torch.int32)
MASK = torch.tensor([True, False, True])
READS = {
    "row": lambda x, i, j: x[i],
    "from the end": lambda x, i, j: x[j],
    "a column": lambda x, i, j: x[:, i],
    "behind an ellipsis": lambda x, i, j: x[..., i],
    "before one": lambda x, i, j: x[i, ...],
    "with a slice": lambda x, i, j: x[i, 1:],
    "with a new dimension": lambda x, i, j: x[None, i, :, None, j],
    "all of them": lambda x, i, j: x[i, j, i],
    "with a list": lambda x, i, j: x[[0, 2], i, [0, 1]],
    "lists apart": lambda x, i, j: x[[0, 2], :, i],
    "with a mask": lambda x, i, j: x[MASK, i],
    "with a mask of two": lambda x, i, j: x[..., j, :][:, i],
    "with a number": lambda x, i, j: x[0, i],
    "with True": lambda x, i, j: x[True, i],
    "computed there": lambda x, i, j: x[x[0, 0].argmax()],
    "a view of the copy": lambda x, i, j: x[i].mT[1:],
    "several of the copy": lambda x, i, j: torch.stack(x[i].unbind(0)[::-1]),
    "the copy's data": lambda x, i, j: x[i].data.detach(),
    "conjugate": lambda x, i, j: (x + 1j * x)[i].conj(),
}
WRITES = {
    "row": (lambda x, i, j: i, 5),
    "a column": (lambda x, i, j: (slice(None), i), 5.5),
    "with a slice": (lambda x, i, j: (i, slice(1, None)), torch.tensor([[1.0, 2.0]])),
    "with a list": (lambda x, i, j: ([0, 2], slice(None), i), torch.arange(6.0).reshape(2, 3)),
    "apart": (lambda x, i, j: (i, slice(None), j), torch.tensor([1, 2, 3], dtype=torch.float64)),
    "more dimensions": (lambda x, i, j: (j, i), torch.ones(1, 1, 2)),
}


@pytest.mark.parametrize("name", READS)
def test_a_part_is_torchs_with_its_gradient(session, name):
    x = torch.arange(18.0).reshape(3, 3, 2).requires_grad_()
    h = session.send(x)
    mine, theirs = READS[name](h, session.send(I), session.send(J)), READS[name](x, I, J)
    assert mine.shape == theirs.shape
    assert torch.equal(mine.detach().publish(), theirs.detach().resolve_conj())
    if theirs.requires_grad:
        for part in (mine, theirs):
            (part * part).abs().sum().backward()
        assert torch.equal(h.grad.publish(), x.grad)
    assert session.stats.round_trips <= 2


@pytest.mark.parametrize("name", WRITES)
def test_a_part_is_written(session, name):
    index, value = WRITES[name]
    x, w = torch.arange(18.0).reshape(3, 3, 2), torch.ones(3, 3, 2, requires_grad=True)
    h, v = session.send(x), session.send(w)
    y, u = w * 1, v * 1
    for mine, theirs in ((h, x), (u, y)):
        mine[index(mine, session.send(I), session.send(J))] = value
        theirs[index(theirs, I, J)] = value
        assert torch.equal(mine.detach().publish(), theirs.detach())
    u.square().sum().backward()
    y.square().sum().backward()
    assert torch.equal(v.grad.publish(), w.grad)
    if isinstance(value, torch.Tensor):
        h[index(h, session.send(I), session.send(J))] = session.send(value)
        assert torch.equal(h.publish(), x)


def write_by_augmenting(x, i):
    x[i] += 1


def read_after_a_write(x, i):
    y = x[i]
    x[0] = 0
    return y + 1


def publish_after_a_write(x, i):
    y = x[i].view(-1)
    x[i] = 0
    return y.publish()


OTHERWISE = {
    "in place": (lambda x, i: x[i].zero_(), r"write x\[i\] = value"),
    "augmented": (write_by_augmenting, r"x\[i\] = x\[i\] \+ 1"),
    "a view of it": (lambda x, i: x[i].view(-1)[1:].copy_(torch.ones(5)), "write x"),
    "an item of it": (lambda x, i: x[i].__setitem__(0, 5.0), "write x"),
    "detached": (lambda x, i: x[i].detach().add_(1), "write x"),
    "its data": (lambda x, i: x[i].data.add_(1), "write x"),
    "a conjugate": (lambda x, i: (x + 0j)[i].conj().zero_(), "write x"),
    "out": (lambda x, i: torch.add(x[0], 1, out=x[i]), "write x"),
    "of several": (lambda x, i: torch._foreach_add_([x[0].clone(), x[i]], 1), "write x"),
    "read after a write": (read_after_a_write, r"x\[i\].clone\(\)"),
    "published after a write": (publish_after_a_write, "once more"),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_a_view_would_do_raises(session, name):
    run, words = OTHERWISE[name]
    with pytest.raises(rpc.HandleError, match=words) as caught:
        run(session.send(torch.arange(18.0).reshape(3, 3, 2)), session.send(I))
    assert caught.value.reason == "x[i] is a copy where i is on the server"


def test_a_copy_of_the_copy_is_free(session):
    x, i = session.send(torch.arange(6.0).reshape(3, 2)), session.send(I)
    y, z = x[i].clone(), copy.deepcopy(x[i])
    x[i] = 0
    assert (y + 1).publish().tolist() == (z + 1).publish().tolist() == [3, 4]
    with torch.inference_mode():
        y = x * 2
        assert y[i].publish().tolist() == [0, 0]
        with pytest.raises(rpc.HandleError, match="write x"):
            y[i].add_(1)


def test_places_outside_are_told(session):
    x = session.send(torch.ones(3, 2))
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        x[session.send(torch.tensor(3))].publish()
    with pytest.raises(IndexError, match="too many indices"):
        x[0, 0, session.send(I)]


BOUNDS = {
    "from": lambda x, i: x[i:],
    "to": lambda x, i: x[0, :i],
    "step": lambda x, i: x[::i],
    "written": lambda x, i: x.__setitem__(slice(i, None), 0),
    "mask": lambda x, i: x[i > 0],
    "byte": lambda x, i: x[0, i.byte()],
    "written mask": lambda x, i: x.__setitem__(i > 0, 0),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_shapes_that_depend_on_an_index_name_an_alternative(session, name):
    with pytest.raises(rpc.ValueAccessError, match=r"torch\.where\(.*x, 0\)") as caught:
        BOUNDS[name](session.send(torch.ones(3, 2)), session.send(I))
    assert caught.value.reason == "the shapes of results depend on values"


@pytest.mark.parametrize(
    "read", [lambda x, i: torch.ones(3)[i], lambda x, i: x.narrow(0, i, 2), lambda x, i: x.select(0, i)]
)
def test_where_torch_asks_for_the_value_the_way_is_named(session, read):
    with pytest.raises(rpc.ValueAccessError, match=r"x\.index_select\(dim, i\)"):
        read(session.send(torch.ones(3)), session.send(I))


def test_the_alternatives_do_what_they_say(session):
    x = torch.arange(5.0)
    h, i = session.send(x), session.send(I)
    assert torch.equal(h[i + torch.arange(2)].publish(), x[1:3])
    assert torch.equal(torch.where(torch.arange(5) < i, h, 0).publish(), torch.where(torch.arange(5) < 1, x, 0))
    assert torch.equal(torch.ones(3).index_select(0, i).publish(), torch.ones(1))


@pytest.mark.parametrize(
    "made",
    [len, lambda x: torch.tensor([x, x]), lambda x: torch.tensor([[x.expand(2)]]), lambda x: torch.LongTensor([x])],
)
def test_handles_in_a_list_are_no_numbers(session, made):
    with pytest.raises(rpc.ValueAccessError, match=r"torch\.stack") as caught:
        made(session.send(I))
    assert isinstance(caught.value, TypeError)
