"""If torch lacks one of the private names, torchnp can still be imported, and the feature that uses the name works
another way or raises an error that says so."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from torchnp.interop import _private

pytestmark = pytest.mark.weekly  # each name needs its own process
SOURCE = Path(_private.__file__).read_text()
NAMES = sorted(
    {
        call.args[0].value
        for call in ast.walk(ast.parse(SOURCE))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "lookup"
    }
)

MODE = {"mode", "operators", "tracer", "subclass"}
# The features that need a name for which there is no public alternative.
NEEDED_BY = {
    "ops.aten.relu.default._schema": MODE | {"handles", "views", "lazy", "decomposed"},
    "utils._python_dispatch.TorchDispatchMode": MODE,
    "ops.aten.relu.default._op_dk": {"views", "decomposed"},
    "_library.custom_ops.OPDEFS": {"operators"},
    "_C._get_dispatch_mode": {"tracer"},
    "_C._TorchDispatchModeKey": {"tracer"},
    "utils._python_dispatch._get_current_dispatch_mode": {"subclass"},  # torch itself refuses
    "utils._python_dispatch._pop_mode_temporarily": {"subclass"},
    "Tensor._make_wrapper_subclass": {"handles", "views", "lazy", "decomposed"},
    "_C._set_throw_on_mutable_data_ptr": {"handles", "views", "lazy", "decomposed"},
    "_C._set_conj": {"lazy"},
    "_C._set_neg": {"lazy"},
    "_C._dispatch_has_kernel_for_dispatch_key": {"mode", "operators", "handles", "views", "lazy", "decomposed"},
}

# Each name is removed in its own process, which is forked after torch has been imported.
PROGRAM = """
import importlib.util, os, sys, types, warnings
import numpy as np
import torch
import torch.fx.experimental.proxy_tensor, torch._dynamo, torch._decomp, torchnp, torchnp.rpc.wire
warnings.simplefilter("ignore")
path, names = sys.argv[1], sys.argv[2:]

@torch.library.custom_op("private::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

class Tagged(torch.Tensor):
    pass

def without(name):
    module = types.ModuleType("torchnp.interop._private")
    with open(path) as file:
        source = file.read()
    exec(compile(source.replace(f'"{name}"', '"gone"', 1), path, "exec"), module.__dict__)  # the look-up stands first
    sys.modules[module.__name__] = module

def cases():
    from torchnp import interop, rpc

    def mode():
        model, x = torch.nn.LSTM(3, 4), torch.arange(12.0).reshape(2, 2, 3)
        with interop.NumpyMode(crosscheck=True) as mode:
            out = model(x)[0].sum()
            out.backward()
        return model.weight_ih_l0.grad, sorted(mode.summary())

    def operators():
        with interop.NumpyMode(crosscheck=True) as mode:
            a = twice(torch.ones(2))
            z = torch.ones(2, dtype=torch.complex64).conj().imag
            return a, z, torch.func.jvp(lambda x: x.real.clone(), (z + 1j,), (z * 1j,))[1], sorted(mode.summary())

    def tracer():
        from torch.fx.experimental.proxy_tensor import make_fx

        with interop.NumpyMode():
            return make_fx(lambda x: x.sin() + 1)(torch.ones(2)).code

    def subclass():
        with interop.NumpyMode():
            return type(Tagged(torch.ones(2) + 1)).__name__

    def handles():
        with rpc.local() as s:
            x = s.send(torch.arange(6.0).reshape(2, 3), requires_grad=True)
            model = s.module(torch.nn.BatchNorm1d(3))
            model(x * x).sum().backward()
            return x.grad.publish(), model.running_mean.publish(), torch.stack([x, x]).shape

    def views():
        with rpc.local() as s:
            x = s.send(torch.arange(6.0).reshape(2, 3))
            y = x.t_()
            x.data = x.double()
            return y is x, x.shape, x.stride(), x.publish()

    def lazy():
        with rpc.local() as s:
            x = s.send(torch.ones(2, dtype=torch.complex64))
            z = x.conj()
            first = (z + 1).publish()
            x.add_(1)
            return first, (z + 1).publish()

    def decomposed():
        import torchnp.core.table

        rows = {name: torchnp.table[name] for name in torchnp.table if "aten::silu_backward" not in name}
        with rpc.local(table=rows) as s:
            x = s.send(torch.ones(2), requires_grad=True)
            torch.nn.functional.silu(x).sum().backward()
            return x.grad.publish()

    def plain():
        torch.manual_seed(0)
        zero = torch.ops.aten._efficientzerotensor.default((2,))
        return interop.to_numpy(zero), interop.to_numpy(torch.ones(2).as_subclass(Tagged))

    return [mode, operators, tracer, subclass, handles, views, lazy, decomposed, plain]

for name in ["nothing", *names]:
    sys.stdout.flush()
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0, name
        continue
    without(name)
    torch.manual_seed(0)
    for case in cases():
        try:
            said = repr(case())
        except RuntimeError as error:
            said = f"RuntimeError: {error}"
        print(repr((name, case.__name__, said)))
    sys.stdout.flush()
    os._exit(0)
"""


@pytest.fixture(scope="module")
def said():
    command = [sys.executable, "-c", PROGRAM, _private.__file__, *NAMES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = map(ast.literal_eval, done.stdout.splitlines())
    return {(name, case): text for name, case, text in rows}


def test_all_is_well_with_all_names(said):
    first = {case: text for (name, case), text in said.items() if name == "nothing"}
    assert len(first) == 9
    assert not [text for text in first.values() if text.startswith("RuntimeError")]


@pytest.mark.parametrize("name", NAMES)
def test_without_a_name(said, name):
    cases = {case for _, case in said}
    needing = NEEDED_BY.get(name, set())
    assert {c for c in cases if said[name, c] != said["nothing", c]} == needing
    for case in needing if name not in NEEDED_BY or "_dispatch." not in name else ():
        assert "use torch 2.12 to 2.15" in said[name, case]
