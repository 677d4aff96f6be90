"""Programs that update parts of buffers: they write in place, and give torch's results."""

import tracemalloc

import numpy as np
import pytest
import torch

import torchnp

SIZE = 1 << 20


class Cache(torch.nn.Module):
    """A module with a buffer, and a body that updates it."""

    def __init__(self, body, other=None):
        super().__init__()
        self.register_buffer("held", torch.arange(SIZE, dtype=torch.float32).reshape(64, -1))
        if other is not None:
            self.register_buffer("other", other(self.held))
        self.body = body

    def forward(self, x, at):
        return self.body(self, x, at)


def put(self, x, at):
    self.held[at] = x
    return self.held.sum(1) * 2


def copied(self, x, at):
    self.held.index_copy_(0, at, x)
    return self.held[:, 3] + 1


def added(self, x, at):
    self.held.index_add_(0, at, x)
    self.held[5:8] = x[:1]
    return self.held.amax(1) - 1


def selected(self, x, at):
    self.held[9] = x[0] - 1  # programs of core operators select by a mask
    return self.held[at] * 3


def scattered(self, x, at):
    self.held.scatter_(0, at[:, None].expand(len(at), x.shape[1]), x)
    return self.held[at] * 3


def old_values(self, x, at):
    before = self.held[:2]
    self.held[at] = x
    return before + self.held[:2]


def old_values_at_the_end(self, x, at):
    before = self.held.view(-1)
    self.held[at] = x
    return before * 1


def new_values(self, x, at):
    self.held[at] = x
    return self.held.view(-1) * 1, self.held.clone()


def of_itself(self, x, at):
    self.held[at] = self.held[at + 1] + self.held.mean(0)
    return x + 1


def both(self, x, at):
    self.held[at] = x
    self.other[at] = self.held[at + 1]
    return self.other.sum(1) + self.held.sum(1)


BODIES = [put, copied, added, selected, scattered, old_values, old_values_at_the_end, new_values, of_itself]


def programs(module, tmp_path):
    """Return the module's program, exported and decomposed, each with and without ``exact``."""
    at = torch.tensor([3, 7])
    exported = torch.export.export(module, (torch.ones(2, SIZE // 64), at))
    forms = {"plain": exported, "functional": exported.run_decompositions({}), "core": exported.run_decompositions()}
    for name, program in forms.items():
        path = tmp_path / f"{name}.pt2"
        torch.export.save(program, path)
        yield torchnp.load(path)
        yield torchnp.load(path, exact=True)


def agree(program, module, x, at):
    wanted, found = module(torch.from_numpy(x), torch.from_numpy(at)), program(x, at)
    for a, b in zip(
        wanted if isinstance(wanted, tuple) else (wanted,), found if isinstance(found, tuple) else (found,)
    ):
        np.testing.assert_allclose(b, a.numpy(), rtol=1e-5)
    for name, buffer in module.named_buffers():
        np.testing.assert_allclose(program.state[name], buffer.numpy(), rtol=1e-5)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_values_and_buffers_are_torchs(body, tmp_path):
    for program in programs(Cache(body), tmp_path):
        module = Cache(body)
        for call in range(3):
            agree(program, module, np.full((2, SIZE // 64), call, np.float32), np.array([call, 7 + call]))


def test_two_buffers(tmp_path):
    for program in programs(Cache(both, torch.clone), tmp_path):
        agree(program, Cache(both, torch.clone), np.full((2, SIZE // 64), 5, np.float32), np.array([2, 7]))


@pytest.mark.parametrize("body", [put, copied, added, scattered], ids=lambda body: body.__name__)
def test_an_update_copies_no_buffer(body, tmp_path):
    x, at = np.ones((2, SIZE // 64), np.float32), np.array([3, 7])
    for program in programs(Cache(body), tmp_path):
        program(x, at)
        if program.exact:
            continue
        tracemalloc.start()
        program(x, at)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < SIZE * 4 / 2


def test_a_replaced_buffer_and_one_that_is_an_argument(tmp_path):
    for program in programs(Cache(of_itself), tmp_path):
        module = Cache(of_itself)
        x, at = np.ones((2, SIZE // 64), np.float32), np.array([3, 7])
        agree(program, module, x, at)
        program.state["held"] = program.state["held"].copy()
        agree(program, module, x, at)
    for program in [*programs(Cache(put), tmp_path)][2:]:  # the first has torch's own write, which refuses this
        held = program.state["held"]
        wanted = held.copy()
        wanted[[5, 4]] = wanted[4:6]
        program(held[4:6], np.array([5, 4]))
        np.testing.assert_array_equal(held, wanted)
