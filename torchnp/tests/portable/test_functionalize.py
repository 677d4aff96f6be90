"""Programs with in-place writes, made functional: results and buffers are torch's."""

import pytest
import torch
from torch import nn

from torchnp.portable.functionalize import functionalize, writes_of
from torchnp.runtime import ProgramError
from torchnp.tests.portable.exported import check, export, load, near

WRITES = {
    "a slice": lambda y: y[1:3].mul_(2),
    "every second": lambda y: y[:, ::2].add_(1),
    "a row": lambda y: y[0].fill_(7),
    "a row of a row": lambda y: y[0][2:].zero_(),
    "a flat view": lambda y: y.view(-1)[::3].neg_(),
    "a transposed view": lambda y: y.t()[1].mul_(3),
    "a permuted view": lambda y: y.unsqueeze(0).permute(2, 0, 1)[0].add_(5),
    "a diagonal": lambda y: y[:, :4].diagonal().zero_(),
    "a diagonal above": lambda y: y.diagonal(1).copy_(torch.arange(4.0)),
    "a part": lambda y: y.split(2)[1].sub_(1),
    "an unbound row": lambda y: y.unbind(1)[2].exp_(),
    "a chunk": lambda y: y.chunk(2, 1)[1].relu_(),
    "a narrow part": lambda y: y.narrow(0, 1, 2).clamp_(max=0.1),
    "a mask": lambda y: y.masked_fill_(y > 0, -1),
    "an assignment": lambda y: y.__setitem__((slice(None), 1), 3.0),
    "indices": lambda y: y.index_put_((torch.tensor([0, 2]),), torch.tensor(1.5)),
    "a copy of itself": lambda y: y[:2].copy_(y[2:]),
    "integers": lambda y: y.copy_(torch.arange(5)),
    "a squeezed view": lambda y: y.unsqueeze_(0).squeeze(0)[0].add_(1),
}


class Writes(nn.Module):
    """Writes to a copy, and reads the copy and a view made before the write."""

    def __init__(self, write):
        super().__init__()
        self.write = write

    def forward(self, x):
        y = x.clone()
        before = y[0:2]
        self.write(y)
        return y, before + 1, y.sum(0)


@pytest.mark.parametrize("what", WRITES)
def test_writes(what):
    exported = export(Writes(WRITES[what]), (torch.randn(4, 5),))
    program = load(exported, "array_api_strict")
    assert not [node for node in program.graph.nodes if writes_of(node)]
    check(program, program(*exported.inputs), exported)


class ReadsACopy(nn.Module):
    """A reshape that copies does not see a later write to its source; one that is a view does."""

    def forward(self, x):
        y = x.clone()
        copied, viewed = y.t().reshape(-1), y.reshape(-1)
        y.add_(1)
        return copied, viewed


def test_whether_a_reshape_copies_is_strides_to_decide():
    exported = export(ReadsACopy(), (torch.randn(2, 3),))
    program = load(exported, "array_api_strict")
    check(program, program(*exported.inputs), exported)


class Counts(nn.Module):
    """Counts its calls, and keeps a sum in a view of a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("sums", torch.zeros(3, 2))

    def forward(self, x):
        self.calls += 1
        self.sums[1] += x
        return x * self.calls + self.sums.sum()


def test_buffers():
    exported = export(Counts(), (torch.randn(2),))
    program = load(exported, "array_api_strict")
    check(program, program(*exported.inputs), exported)
    for name, wanted in exported.buffers.items():
        near(program.lib.to_numpy(program.state[name]), wanted)
    program(*exported.inputs)
    assert int(program.state["calls"]) == 2


class Pure(nn.Module):
    def forward(self, x):
        return x + 1


def test_a_program_without_writes_is_left_alone():
    program = load(export(Pure(), (torch.ones(2),)), "array_api_strict")
    assert functionalize(program.graph, program.signature)[0] is program.graph


class WritesAnUnfoldedView(nn.Module):
    def forward(self, x):
        y = x.clone()
        y.unfold(0, 2, 2).mul_(2)
        return y


def test_a_view_without_an_inverse_is_refused():
    with pytest.raises(
        ProgramError, match=r"aten::unfold made, which has no inverse here: save what run_decompositions"
    ):
        load(export(WritesAnUnfoldedView(), (torch.randn(4),)), "array_api_strict")
