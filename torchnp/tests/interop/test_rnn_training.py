"""Recurrent networks train as in torch under the mode, across its edge, on the device and with handles, without
crashes."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from torchnp.interop import NumpyMode
from torchnp.tests.interop.rnn_training import KINDS


@pytest.mark.parametrize("kind", [k if k == "LSTM" else pytest.param(k, marks=pytest.mark.weekly) for k in KINDS])
@pytest.mark.parametrize("where", ["mode", "device", "handles"])
def test_training(where, kind):
    command = [sys.executable, "-m", "torchnp.tests.interop.rnn_training", where, kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr.splitlines()[-1:]
    assert json.loads(done.stdout) == []


def layer():
    torch.manual_seed(0)
    return torch.nn.LSTM(3, 4), torch.randn(5, 2, 3, requires_grad=True)


def gradient(out, module):
    out.square().sum().backward()
    found = module.weight_ih_l0.grad.clone()
    module.weight_ih_l0.grad = None
    return found


def workspace_of(out):
    return out.grad_fn._saved_result3


def test_the_workspace_is_for_the_gradient_alone():
    """The workspace has no memory that native code could read; anything that reads it gets an error."""
    module, x = layer()
    want = gradient(module(x)[0], module)
    with NumpyMode() as mode:
        out = module(x)[0]
    assert mode.calls["aten::mkldnn_rnn_layer"] == 1
    workspace = workspace_of(out)
    assert workspace.shape == (0,) and "Workspace" in repr(workspace)
    with pytest.raises(RuntimeError, match="workspace of an LSTM"):
        workspace + 1
    with pytest.raises(RuntimeError, match="workspace of an LSTM"):
        torch.empty(0, dtype=torch.uint8).copy_(workspace)
    with pytest.raises(RuntimeError):
        workspace.data_ptr()
    with pytest.raises(RuntimeError, match="no memory"):
        workspace.untyped_storage()
    with pytest.raises(RuntimeError, match="cannot be saved"):
        pickle.dumps(workspace)
    torch.testing.assert_close(gradient(out, module), want)


@pytest.mark.parametrize("inside", [True, False])
def test_the_gradient_by_way_of_hooks_and_a_second_time(inside):
    module, x = layer()
    want = gradient(module(x)[0], module)
    with torch.autograd.graph.save_on_cpu(), NumpyMode() as mode:
        out = module(x)[0]
        if inside:
            torch.testing.assert_close(gradient(out, module), want)
            assert mode.calls["aten::mkldnn_rnn_layer_backward"] == 1
    if not inside:
        for _ in range(2):
            out.square().sum().backward(retain_graph=True)
        torch.testing.assert_close(module.weight_ih_l0.grad, 2 * want)


def test_the_gradient_checks_itself_against_torch():
    module, x = layer()
    want = gradient(module(x)[0], module)
    with NumpyMode():
        out = module(x)[0]
    with NumpyMode(crosscheck=True):
        torch.testing.assert_close(gradient(out, module), want)
    with NumpyMode(crosscheck=True):
        torch.testing.assert_close(gradient(module(x)[0], module), want)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_inside_the_mode(reentrant):
    module, x = layer()
    want = gradient(module(x)[0], module)
    with NumpyMode():
        found = gradient(checkpoint(lambda x: module(x)[0], x, use_reentrant=reentrant), module)
    torch.testing.assert_close(found, want)


def test_without_gradients_there_is_no_workspace():
    module, x = layer()
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    state = torch.zeros(1, 2, 4)
    given = [x, *(getattr(module, n).detach() for n in names), state, state, False, [], 2, 4, 1, True, False, False]
    for train in (True, False):
        with torch.no_grad(), NumpyMode():
            assert torch.ops.aten.mkldnn_rnn_layer(*given, train)[3] is None
        with NumpyMode():
            assert torch.ops.aten.mkldnn_rnn_layer(*given, train)[3] is not None
    with NumpyMode(), pytest.raises(RuntimeError, match="no workspace"):
        outs = {f"out{i}": torch.empty(0, dtype=torch.uint8 if i == 3 else torch.float32) for i in range(4)}
        torch.ops.aten.mkldnn_rnn_layer.out(
            *(t.detach() if isinstance(t, torch.Tensor) else t for t in given), True, **outs
        )


def test_a_function_transform_of_a_layer():
    module, x = layer()
    parameters = {n: p.detach() for n, p in module.named_parameters()}

    def loss(parameters):
        return torch.func.functional_call(module, parameters, (x.detach(),))[0].square().sum()

    want = torch.func.grad(loss)(parameters)
    with NumpyMode():
        found = torch.func.grad(loss)(parameters)
    torch.testing.assert_close(found, want)
