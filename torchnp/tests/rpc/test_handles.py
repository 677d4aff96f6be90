"""What a handle refuses, and with which messages: values, silent no-ops, foreign tensors, and errors from the
server."""

from __future__ import annotations

import io
import operator
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torchnp import rpc
from torchnp.core.schema import load
from torchnp.tests.rpc import server_pool

# ---------------------------------------------------------------- values

READERS = {
    "item": lambda x: x[0, 0].item(),
    "bool": lambda x: bool(x[0, 0] > 0),
    "if": lambda x: 1 if x.sum() else 0,
    "not": lambda x: not x[0, 0],
    "int": lambda x: int(x[0, 0]),
    "float": lambda x: float(x[0, 0]),
    "complex": lambda x: complex(x[0, 0]),
    "index": lambda x: [1, 2, 3][x[0, 0]],
    "range": lambda x: range(x[0, 0]),
    "in": lambda x: 1.0 in x,
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "asarray": lambda x: np.asarray(x),
    "np.array": lambda x: np.array(x, dtype=np.float64),
    "np.add": lambda x: np.add(x, 1),
    "cpu": lambda x: x.cpu(),
    "cuda": lambda x: x.cuda(),
    "to-meta": lambda x: x.to("meta"),
    "dlpack-method": lambda x: x.__dlpack__(),
    "np.from_dlpack": lambda x: np.from_dlpack(x),
    "torch.from_dlpack": lambda x: torch.from_dlpack(x),
    "to_dlpack": lambda x: torch.utils.dlpack.to_dlpack(x),
    "torch.to_dlpack": lambda x: torch.to_dlpack(x),
    "equal": lambda x: torch.equal(x, x),
    "allclose": lambda x: torch.allclose(x, x),
    "is_nonzero": lambda x: torch.is_nonzero(x[0, 0]),
    "format": lambda x: f"{x[0, 0]:.2f}",
    "str.format": lambda x: f"{x[0, 0]:.2f}",
    "data_ptr": lambda x: x.data_ptr(),
    "storage": lambda x: x.untyped_storage(),
    "share": lambda x: x.share_memory_(),
}


@pytest.mark.parametrize("name", READERS)
def test_reading_values_names_the_server_the_shape_and_the_way(session, name):
    x = session.send(torch.ones(2, 3))
    with pytest.raises(rpc.ValueAccessError) as caught:
        READERS[name](x)
    text = str(caught.value)
    assert session.name in text
    assert "shape (2, 3)" in text or "shape ()" in text
    assert ".publish()" in text
    assert isinstance(caught.value, rpc.RPCError)
    assert session.stats.round_trips == 0


def test_the_raw_pointer_is_not_null_but_an_error(session):
    x = session.send(torch.ones(2, 3))
    for handle in (x, x * 2, x[1], x.detach(), nn.Parameter(x)):
        with pytest.raises(RuntimeError, match="data pointer"):
            torch._C._to_dlpack(handle)
    with pytest.raises(RuntimeError):
        torch.tensor([x[0, 0], x[0, 1]])


@pytest.mark.parametrize(
    "run", [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.matmul]
)
def test_arrays_on_either_side_are_refused_with_the_way(session, run):
    x, array = session.send(torch.ones(3)), np.ones(3)
    for left, right in ((x, array), (array, x)):
        with pytest.raises(
            (TypeError, rpc.ValueAccessError), match=r"torch\.from_numpy\(array\) or session\.send\(array\)"
        ):
            run(left, right)
    if run is not operator.matmul:
        assert run(2, x).publish().tolist() == run(np.float32(2), x).publish().tolist() == [run(2, 1)] * 3


def test_printing_shows_the_handle_and_never_raises(session, capsys):
    x = session.send(torch.ones(2, 3), requires_grad=True)
    print(x, x.sum(), [x], {"a": x[0, 0]})
    out = capsys.readouterr().out
    assert out.count("RPCTensor(shape=") == 4
    session.close()
    assert "RPCTensor" in f"{x!r} {x}"


DYNAMIC = {
    "nonzero": (lambda x: x.nonzero(), "torch.where"),
    "where": (lambda x: torch.where(x > 0), "torch.where"),
    "argwhere": (lambda x: torch.argwhere(x), "torch.where"),
    "mask": (lambda x: x[x > 0], r"torch.where\(mask, x, 0\)"),
    "row-mask": (lambda x: x[:, x[0] > 0], "torch.where"),
    "masked_select": (lambda x: torch.masked_select(x, x > 0), "torch.where"),
    "unique": (lambda x: x.unique(), "torch.sort"),
    "unique_consecutive": (lambda x: x.unique_consecutive(), "torch.sort"),
    "bincount": (lambda x: x[0].long().bincount(), "scatter_add_"),
    "repeat_interleave": (lambda x: x[0].repeat_interleave(x[0].long()), "repeat_interleave"),
    "into": (lambda x: torch.ops.aten.unique_dim.out(x, 0, out0=x.new_empty(0), out1=x[0], out2=x[1]), "torch.sort"),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_shapes_that_depend_on_values_name_an_alternative(session, name):
    run, words = DYNAMIC[name]
    with pytest.raises(rpc.ValueAccessError, match=words) as caught:
        run(session.send(torch.ones(3, 3)))
    assert "shape that depends on values" in str(caught.value)


def test_masks_where_the_shape_is_known(session):
    x = torch.randn(3, 4)
    h = session.send(x)
    h[h > 0] = 0.0
    y = x.clone()
    y[y > 0] = 0.0
    assert torch.equal(h.publish(), y)
    assert torch.equal(torch.where(h < -1, h, 0).publish(), torch.where(y < -1, y, 0))
    assert torch.equal(h.masked_fill(h < -1, 2).publish(), y.masked_fill(y < -1, 2))


# ---------------------------------------------------------------- silently nothing, elsewhere


def batch_norm_statistics(x):
    nn.BatchNorm1d(3)(x)


def instance_norm_statistics(x):
    nn.InstanceNorm1d(3, track_running_stats=True)(x.reshape(1, 3, 2))


def sgd(x):
    layer = nn.Linear(3, 2)
    layer(x).sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()


def sgd_momentum(x):
    layer = nn.Linear(3, 2)
    layer(x).sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1).step()


def adam(x):
    layer = nn.Linear(3, 2)
    layer(x).sum().backward()
    torch.optim.Adam(layer.parameters()).step()


def adam_foreach(x):
    layer = nn.Linear(3, 2)
    layer(x).sum().backward()
    torch.optim.Adam(layer.parameters(), foreach=True).step()


def adam_fused(x):
    layer = nn.Linear(3, 2)
    layer(x).sum().backward()
    torch.optim.Adam(layer.parameters(), fused=True).step()


def part_of_plain(x):
    torch.zeros(4, 3)[1:3] = x


def indexed_plain(x):
    torch.zeros(2, 3)[torch.tensor([True, False])] = x[0]


INTO_PLAIN = {
    "copy_": lambda x: torch.zeros(2, 3).copy_(x),
    "add_": lambda x: torch.zeros(2, 3).add_(x),
    "iadd": lambda x: torch.zeros(2, 3).__iadd__(x),
    "addmm_": lambda x: torch.zeros(2, 2).addmm_(x, x.T),
    "out": lambda x: torch.add(x, 1, out=torch.zeros(2, 3)),
    "out-two": lambda x: torch.max(x, 0, out=(torch.zeros(3), torch.zeros(3, dtype=torch.long))),
    "foreach": lambda x: torch._foreach_add_([torch.zeros(2, 3)], [x]),
    "foreach-mixed": lambda x: torch._foreach_add_([x, torch.zeros(2, 3)], [x, x]),
    "part": part_of_plain,
    "index": indexed_plain,
    "batch-norm": batch_norm_statistics,
    "instance-norm": instance_norm_statistics,
    "sgd": sgd,
    "sgd-momentum": sgd_momentum,
    "adam": adam,
    "adam-foreach": adam_foreach,
    "adam-fused": adam_fused,
    "lerp": lambda x: torch.zeros(2, 3).lerp_(x, 0.5),
    "scatter": lambda x: torch.zeros(2, 3).scatter_(0, torch.zeros(2, 3, dtype=torch.long), x),
}


@pytest.mark.parametrize("name", INTO_PLAIN)
def test_plain_tensors_are_not_silently_left_alone(session, name):
    x = session.send(torch.ones(2, 3))
    with pytest.raises(rpc.HandleError, match="plain tensor") as caught:
        INTO_PLAIN[name](x)
    assert "publish()" in str(caught.value)
    assert "session.module(model)" in str(caught.value)
    assert session.name in str(caught.value)


def test_handles_are_not_saved_or_moved_behind_the_servers_back(session):
    x = session.send(torch.ones(2, 3))
    for save in (
        lambda: torch.save(x, io.BytesIO()),
        lambda: torch.save({"state": [x]}, io.BytesIO()),
        lambda: pickle.dumps(x),
        lambda: torch.save(session.module(nn.Linear(2, 2)).state_dict(), io.BytesIO()),
    ):
        with pytest.raises(rpc.HandleError, match=r"Save what \.publish\(\) gives"):
            save()
    for move in (lambda m: m.to("meta"), lambda m: m.cpu(), lambda m: m.to(torch.device("meta"), torch.float64)):
        with pytest.raises(rpc.ValueAccessError, match="publish"):
            move(session.module(nn.Linear(2, 2)))


def test_storage_and_data_are_not_replaced(session):
    x = session.send(torch.ones(2, 3))
    with pytest.raises(rpc.HandleError, match="copy_"):
        x.data = torch.zeros(2, 3)
    with pytest.raises(rpc.HandleError, match="storage"):
        x.resize_(5)
    with pytest.raises(rpc.HandleError, match="storage"):
        x.set_()
    with pytest.raises(RuntimeError, match="tensor of type long int to a tensor of type float"):
        x.set_(session.send(torch.zeros(1).long()))
    y, whole = session.send(torch.zeros(3)), x[:]
    assert y.set_(x[0]) is y
    assert torch.equal(y.mul_(1).publish(), torch.ones(3)) and torch.equal(whole.publish(), torch.ones(2, 3))
    with pytest.raises(rpc.HandleError, match=r"out= has shape \(3,\)"):
        torch.add(x, 1, out=session.send(torch.zeros(3)))
    with pytest.raises(rpc.HandleError, match="of its session"), server_pool.session("local") as other:
        x.data = other.send(torch.zeros(2, 3))
    x.data.add_(1)
    assert torch.equal(x.publish(), torch.full((2, 3), 2.0))


def test_what_does_not_fit_a_frame_is_refused_here(session):
    x = session.send(torch.zeros(70_000, 1))
    with pytest.raises(rpc.HandleError, match=r"list of 70,000 entries is longer than the 65,536"):
        x.unbind()
    with pytest.raises(rpc.HandleError, match="70,000 entries"):
        torch.stack([x] * 70_000)
    assert torch.stack([x[0]] * 60_000).sum().publish() == 0


def test_handles_of_two_sessions_do_not_meet(session):
    with server_pool.session("local") as other:
        x, y = session.send(torch.ones(3)), other.send(torch.ones(3))
        for run in (
            lambda: x + y,
            lambda: torch.cat([y, x]),
            lambda: x.add_(y),
            lambda: torch.where(x > 0, x, y),
            lambda: torch._foreach_mul([x], [y]),
            lambda: torch.add(x, 1, out=y),
        ):
            with pytest.raises(rpc.HandleError, match="two sessions"):
                run()


def test_a_closed_session_says_so(session):
    x = session.send(torch.ones(3))
    session.close()
    session.close()
    for run in (lambda: x + 1, x.publish, lambda: x.add_(1), session.sync, lambda: session.send(torch.ones(1))):
        with pytest.raises(rpc.SessionClosed, match=r"is closed"):
            run()
    assert x.shape == (3,)
    assert repr(x) == f"RPCTensor(shape=(3,), dtype=float32, on={session.name!r}, closed: no values any more)"
    assert repr(session).endswith("(closed)>")


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch warns about quantized and nested tensors
def test_strangers_do_not_meet_handles(session):
    x = session.send(torch.ones(3))
    for stranger in (torch.eye(3).to_sparse(), torch.empty(3, device="meta")):
        with pytest.raises((rpc.HandleError, RuntimeError)):
            x + stranger
    with pytest.raises(rpc.HandleError, match="already"):
        session.send(x)
    for stranger, what in (
        (torch.eye(3).to_sparse(), r"of layout torch\.sparse_coo: send its to_dense\(\)"),
        (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), r"quantized \(torch\.qint8\)"),
        (torch.nested.nested_tensor([torch.ones(2)]), r"nested: send the tensors of its unbind\(\)"),
        (torch.empty(3, device="meta"), "on the device meta, without values"),
    ):
        for run in (lambda: session.send(stranger), lambda: x + stranger):
            with pytest.raises(
                rpc.HandleError, match=f"only dense CPU tensors can (be sent|meet a handle).*, this one is {what}"
            ):
                run()
    with pytest.raises(rpc.HandleError, match="no device"):
        torch.zeros_like(x, device="meta")


def test_operators_that_the_table_lacks_are_named_with_their_neighbours():
    def sinh(self):
        return np.sinh(self)

    sinh.schema = load()["aten::sinh"]
    with rpc.local(table={"aten::sinh": sinh}) as s:
        x = s.send(torch.ones(3))
        torch.testing.assert_close(x.sinh().publish(), torch.ones(3).sinh())
        with pytest.raises(NotImplementedError, match=r"aten::asinh: the server's table has no such row.*aten::sinh"):
            x.asinh()
        with pytest.raises(NotImplementedError, match="aten::sinh_"):
            x.sinh_()


# ---------------------------------------------------------------- errors from afar


def test_shapes_and_dtypes_are_refused_here_at_once(session):
    x = session.send(torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="must match the size"):
        x + session.send(torch.ones(4))
    with pytest.raises(RuntimeError, match="can't be cast"):
        session.send(torch.ones(3, dtype=torch.long)).add_(1.5)
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.sum(5)
    session.sync()


def test_a_failure_comes_with_the_next_answer(session):
    weight = session.send(torch.randn(4, 3))
    rows = session.send(torch.tensor([0, 9]))
    found = F.embedding(rows, weight)  # the line that the error must name
    line = test_a_failure_comes_with_the_next_answer.__code__.co_firstlineno + 3
    user = found * 2 + 1
    fine = weight + 1
    with pytest.raises(IndexError, match=r"^index out of range in self") as caught:
        session.sync()
    error = caught.value
    assert isinstance(error, rpc.RemoteOpError)
    assert not isinstance(error, rpc.RPCError)
    assert error.op == "aten::embedding"
    assert error.location == f"{__file__}:{line}"
    assert error.remote_text == "index out of range in self"
    assert f"{__file__}:{line}" in str(error)
    assert session.name in str(error)
    session.sync()
    for handle in (found, user, user.sum()):
        with pytest.raises(IndexError, match="index out of range") as caught:
            handle.publish()
        assert caught.value.seq == error.seq
        assert caught.value.location == error.location
    assert torch.equal(fine.publish(), weight.publish() + 1)


def test_a_matrix_that_is_none_to_invert_is_of_torchs_class(session):
    torch.linalg.inv(session.send(torch.zeros(2, 2)))
    with pytest.raises(torch.linalg.LinAlgError, match="singular") as caught:
        session.sync()
    assert isinstance(caught.value, rpc.RemoteOpError)


def test_the_earliest_failure_wins_and_others_are_counted(session):
    weight = session.send(torch.randn(4, 3))
    first = F.embedding(session.send(torch.tensor([7])), weight)
    second = F.embedding(session.send(torch.tensor([8])), weight)
    both = second + first
    with pytest.raises(IndexError, match="1 more failed on their own") as caught:
        session.sync()
    with pytest.raises(IndexError) as again:
        both.publish()
    assert again.value.seq == caught.value.seq
    with pytest.raises(IndexError) as other:
        second.publish()
    assert other.value.seq > caught.value.seq
    fine = weight.publish()
    assert fine.shape == (4, 3)


def test_what_should_have_been_written_is_not_believed(session):
    x = session.send(torch.zeros(4, 3))
    view = x[1:3]
    sibling = x.view(12)
    x.index_put_((session.send(torch.tensor([9])),), session.send(torch.ones(3)))
    for handle in (x, view, sibling, sibling + 1):
        with pytest.raises(IndexError):
            handle.publish()
    with pytest.raises(IndexError):
        x.zero_().publish()


def test_modules_fail_at_the_users_line(session):
    model = session.module(nn.Sequential(nn.Embedding(4, 3), nn.Linear(3, 2)))
    line = test_modules_fail_at_the_users_line.__code__.co_firstlineno + 3
    loss = model(session.send(torch.tensor([1, 5]))).sum()
    loss.backward()
    with pytest.raises(IndexError) as caught:
        session.sync()
    assert caught.value.location == f"{__file__}:{line}"


def test_kernel_classes_cross_the_wire():
    raised = {}

    def fail(self, *args, **kwargs):
        raise raised["error"]

    fail.schema = load()["aten::neg"]
    with rpc.local(table={"aten::neg": fail}) as s:
        x = s.send(torch.ones(3))
        for error, cls, words in (
            (RuntimeError("a"), RuntimeError, "a"),
            (IndexError("b"), IndexError, "b"),
            (ValueError("c"), ValueError, "c"),
            (TypeError("d"), TypeError, "d"),
            (NotImplementedError("e"), NotImplementedError, "e"),
            (np.linalg.LinAlgError("f"), torch.linalg.LinAlgError, "f"),
            (ZeroDivisionError("g"), RuntimeError, "ZeroDivisionError: g"),
        ):
            raised["error"] = error
            x.neg()
            with pytest.raises(cls, match=f"^{words}\n") as caught:
                s.sync()
            assert isinstance(caught.value, rpc.RemoteOpError)
            assert caught.value.remote_text == words
        raised["error"] = MemoryError()
        x.neg()
        with pytest.raises(rpc.QuotaError, match="out of memory"):
            s.sync()
        assert torch.equal(x.publish(), torch.ones(3))


def test_results_that_are_not_what_torch_says_are_noticed():
    def neg(self):
        return np.zeros(5, np.float32)

    neg.schema = load()["aten::neg"]
    with rpc.local(table={"aten::neg": neg}) as s, pytest.raises(rpc.ProtocolError, match="differ"):
        s.send(torch.ones(3)).neg().publish()


# ---------------------------------------------------------------- NumPy's functions

ADVISED = {
    "np.std": (lambda x: np.std(x), "torch.std", "divide by N - 1"),
    "np.var": (lambda x: np.var(x, axis=0), "torch.var", "divide by N - 1"),
    "np.median": (lambda x: np.median(x), "torch.median", "the lower of the two in the middle"),
    "np.dot": (lambda x: np.dot(x, x), "torch.dot", "dot takes two vectors"),
    "np.split": (lambda x: np.split(x, 2), "torch.split", "takes the size of the pieces"),
    "np.array_split": (lambda x: np.array_split(x, 2), "torch.tensor_split", "accepts index tensors only of int64"),
    "np.transpose": (lambda x: np.transpose(x), "torch.permute", "torch.transpose swaps two dimensions"),
    "np.linalg.inv": (lambda x: np.linalg.inv(x), "torch.linalg.inv", "linear algebra refuses integers"),
    "np.fft.fft": (lambda x: np.fft.fft(x), "torch.fft.fft", "norm= means the same in both"),
    "np.repeat": (lambda x: np.repeat(x, 2), "torch.repeat_interleave", "Tensor.repeat is np.tile"),
    "np.copy": (lambda x: np.copy(x), "torch.clone", "the order of the dimensions in memory"),
    "np.percentile": (lambda x: np.percentile(x, 3), "torch.quantile", "a share from 0 to 1"),
    "np.ptp": (lambda x: np.ptp(x), "", "subtract the extremes"),
}


@pytest.mark.parametrize("name", ADVISED)
def test_a_function_of_numpy_is_refused_with_what_the_reference_says(session, name):
    call, way, words = ADVISED[name]
    with pytest.raises(TypeError) as refused:
        call(session.send(torch.ones(2, 3)))
    said = str(refused.value)
    assert said.startswith(f"{name} takes arrays") and words in said and f"torchnp explain {name}" in said
    assert f"use {way}, which runs there" in said if way else "use functions of torch's" in said
