"""Recurrent networks trained by torch and by torchnp.

``python -m torchnp.tests.interop.rnn_training WHERE KIND`` prints the differences as JSON. WHERE is ``mode`` (the
forward and the backward each inside `NumpyMode` or not), ``device`` (``np``) or ``handles``. A fault may end the
process, so each test runs this in its own process.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

KINDS: dict[str, Callable[..., nn.Module]] = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "RNN": nn.RNN,
    "RNN relu": lambda *args, **options: nn.RNN(*args, nonlinearity="relu", **options),
}


class Case(NamedTuple):
    """A network, whether it trains, and its inputs."""

    options: dict[str, Any]
    train: bool
    packed: bool = False
    given: bool = False  # whether the first state is given
    batched: bool = True
    frozen: str = ""  # parameters whose names contain this text get no gradient
    only_end: bool = False  # the loss is that of the last state
    dtype: torch.dtype = torch.float32
    leaf: bool = True  # whether the input requires a gradient


def cases(kind: str) -> Iterator[Case]:
    """Return networks with all combinations of layers, directions, projections and bias; other options vary along with
    them."""
    projections = (0, 2) if kind == "LSTM" else (0,)
    choices = itertools.product((1, 2), (False, True), projections, (True, False), (False, True))
    for i, (layers, both, projected, bias, train) in enumerate(choices):
        options = {"num_layers": layers, "bidirectional": both, "bias": bias, "batch_first": i % 3 == 0}
        if projected:
            options["proj_size"] = projected
        if layers == 2 and train:
            options["dropout"] = 0.5
        yield Case(options, train, packed=(i // 2 + i // 4) % 2 > 0, given=i % 4 < 2, leaf=i % 5 > 0)
    for train in (False, True):
        yield Case({}, train, batched=False)
        yield Case({"bidirectional": True}, train, frozen="hh")
        yield Case({}, train, frozen="_", given=True)
        yield Case({}, train, frozen="_")
        yield Case({"num_layers": 2}, train, only_end=True)
        yield Case({"num_layers": 2}, train, dtype=torch.float64)
        yield Case({"num_layers": 2, "bidirectional": True}, train, dtype=torch.bfloat16)


def arguments(case: Case, module: Any) -> list[torch.Tensor]:
    """Return the input, and the first state if it is given."""
    made = torch.Generator().manual_seed(1)
    shape = (2, 5, 3) if module.batch_first else (5, 2, 3)
    x = torch.randn(shape if case.batched else (5, 3), generator=made, dtype=case.dtype)
    states = []
    if case.given:
        directions = module.num_layers * (1 + module.bidirectional)
        batch = (2,) if case.batched else ()
        states = [torch.randn(directions, *batch, module.proj_size or 4, generator=made, dtype=case.dtype)]
        if module.mode == "LSTM":
            states.append(torch.randn(directions, *batch, 4, generator=made, dtype=case.dtype))
    return [x, *states]


def run(module: Any, case: Case, given: list[Any], forward: Any, backward: Any) -> list[Any]:
    """Return the results of a step, and the gradients."""
    x, *states = given
    leaves = [t for t in (x,) if case.leaf] + states
    for leaf in leaves:
        leaf.requires_grad_()
    for name, p in module.named_parameters():
        p.requires_grad_(not case.frozen or case.frozen not in name)
    module.train(case.train)
    leaves += [p for p in module.parameters() if p.requires_grad]
    torch.manual_seed(5)
    with forward():
        sent = x
        if case.packed and case.batched:
            sent = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]), batch_first=module.batch_first)
        out, end = module(sent, tuple(states) if len(states) > 1 else states[0]) if states else module(sent)
        out = nn.utils.rnn.pad_packed_sequence(out)[0] if sent is not x else out
        ends = end if isinstance(end, tuple) else (end,)
        loss = sum(e.square().sum() for e in ends)
        if not case.only_end:
            weights = torch.linspace(-1, 1, out.numel(), device=out.device).reshape(out.shape)
            loss = loss + (out.float() * weights).sum()
    with backward():
        grads = torch.autograd.grad(loss, leaves)
    return [out, *ends, *grads]


Routes = list[tuple[str, Callable[..., Any], Callable[..., Any]]]
NOWHERE = contextlib.nullcontext


def differences(kind: str, where: str) -> list[str]:
    """Return the differences between torch and torchnp, a line for each run."""
    routes: Routes = [(where, NOWHERE, NOWHERE)]
    move: Callable[[Any], Any]
    if where == "mode":
        from torchnp.interop import NumpyMode

        routes = [("both", NumpyMode, NumpyMode), ("forward", NumpyMode, NOWHERE), ("backward", NOWHERE, NumpyMode)]
        move, back = (lambda x: x), (lambda x: x)
    elif where == "device":
        import torchnp.device  # noqa: F401  it registers the device

        move, back = (lambda x: x.to("np")), (lambda x: x.cpu())
    else:
        from torchnp import rpc

        session = rpc.local()
        move = lambda x: session.module(x) if isinstance(x, nn.Module) else session.send(x)
        back = lambda x: x.publish()
    found = []
    runs = 0
    for case in cases(kind):
        torch.manual_seed(0)
        module = KINDS[kind](3, 4, **case.options).to(case.dtype)
        want = run(copy.deepcopy(module), case, arguments(case, module), NOWHERE, NOWHERE)
        for name, forward, backward in routes:
            runs += 1
            print(f"{kind} {case} {name}", file=sys.stderr, flush=True)  # after a crash, the last line names the case
            try:
                moved = [move(x) for x in arguments(case, module)]
                got = run(move(copy.deepcopy(module)), case, moved, forward, backward)
                wide = {"rtol": 0.05, "atol": 0.05} if case.dtype == torch.bfloat16 else {}
                for g, w in zip(got, want, strict=True):
                    torch.testing.assert_close(back(g.detach()), w.detach(), **wide)
            except Exception as error:
                found.append(f"{case} {name}: {type(error).__name__}: {error}")
    assert runs >= 30
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(differences(sys.argv[2], sys.argv[1])))
