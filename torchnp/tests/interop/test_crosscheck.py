"""NumpyMode(crosscheck=True) stops at the first op whose kernel disagrees with torch in any way."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torchnp.interop import CrossCheckError, NumpyMode  # noqa: E402
from torchnp.random import default_generator  # noqa: E402
from torchnp.tests.interop.torch_table import TorchTable  # noqa: E402


class Broken(TorchTable):
    """A right table with some rows replaced."""

    def __init__(self, rows):
        super().__init__()
        self.rows = {f"aten::{name}": kernel for name, kernel in rows.items()}

    def __getitem__(self, name):
        return self.rows.get(name) or super().__getitem__(name)


def stray_write(self):
    result = np.sin(self)
    self[0] = 7
    return result


def refuse(*args):
    raise ValueError("no")


X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])

CASES = {
    "values": (Broken({"sin": lambda self: np.sin(self) * np.float32(1.001)}), lambda x: x.cos().sin(), "aten::sin", "values"),
    "nan": (Broken({"sin": lambda self: self * np.float32("nan")}), lambda x: x.sin(), "aten::sin", "values"),
    "integers": (Broken({"abs": lambda self: np.abs(self) + 1}), lambda x: x.long().abs(), "aten::abs", "values"),
    "number": (Broken({"_local_scalar_dense": lambda self: 3.0}), lambda x: x[0, 0].item(), "aten::_local_scalar_dense", "values"),
    "dtype": (Broken({"sin": lambda self: np.sin(self.astype(float))}), lambda x: x.sin(), "aten::sin", "dtype"),
    "shape": (Broken({"sum": lambda self, dtype=None: self.sum(keepdims=True)}), lambda x: x.sum(), "aten::sum", "shape"),
    "lost view": (Broken({"t": lambda self: self.T.copy()}), lambda x: x.t(), "aten::t", "error"),
    "wrong view": (Broken({"t": lambda self: self}), lambda x: x.t(), "aten::t", "values"),
    "stray write": (Broken({"sin": stray_write}), lambda x: x.clone().sin(), "aten::sin", "written argument"),
    "lost write": (Broken({"mul_.Tensor": lambda self, other: self}), lambda x: x.clone().mul_(2), "aten::mul_.Tensor", "values"),
    "refuses": (Broken({"sin": refuse}), lambda x: x.sin(), "aten::sin", "error"),
    "refuses otherwise": (Broken({"mm": refuse}), lambda x: x.mm(x[:1]), "aten::mm", "error"),
    "accepts": (Broken({"mm": lambda self, mat2: self}), lambda x: x.mm(x[:1]), "aten::mm", "error"),
    "results": (Broken({"aminmax": lambda self, dim=None, keepdim=False: (self.max(), self.max())}),
      lambda x: x.aminmax(), "aten::aminmax", "values"),
    "generator": (Broken({"rand": lambda size, **_: np.zeros(size, np.float32)}), lambda x: torch.rand(2), "aten::rand", "values"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_first_wrong_op_is_named(case):
    table, run, op, aspect = CASES[case]
    with NumpyMode(crosscheck=True, table=table), pytest.raises(CrossCheckError) as error:
        run(X.clone())
    assert (error.value.op, error.value.aspect) == (op, aspect)
    assert str(error.value).startswith(op)


def test_a_lost_alias_is_named():
    table = Broken({"_unsafe_view": lambda self, size: self.reshape(size).copy()})
    with NumpyMode(crosscheck=True, table=table), pytest.raises(CrossCheckError) as error:
        torch.ops.aten._unsafe_view(X, [4])
    assert error.value.aspect == "aliasing"
    assert "in torch on one storage, here on two storages" in str(error.value)


def test_a_stray_alias_is_named():
    table = Broken({"clone": lambda self, memory_format=None: self})
    with NumpyMode(crosscheck=True, table=table), pytest.raises(CrossCheckError) as error:
        X.clone()
    assert error.value.aspect == "aliasing"
    assert "in torch on two storages, here on one memory by two storages" in str(error.value)


def test_a_generator_left_elsewhere_is_named():
    def rand(size, **_):
        values = torch.rand(
            size, generator=torch.Generator().set_state(torch.from_numpy(default_generator.get_state()))
        )
        return values.numpy()

    with NumpyMode(crosscheck=True, table=Broken({"rand": rand})), pytest.raises(CrossCheckError) as error:
        torch.rand(3)
    assert error.value.aspect == "generator"


def test_the_message_says_what_is_needed_to_reproduce():
    table = Broken({"add.Tensor": lambda self, other, *, alpha=1: np.add(self, other) + np.float32(0.5)})
    x, y = torch.zeros(2, 3), torch.ones(3, 2).t()
    with NumpyMode(crosscheck=True, table=table), pytest.raises(CrossCheckError) as error:
        (x * 1).add(y, alpha=1)
    message = str(error.value)
    assert "aten::add.Tensor (op 2 under the mode) disagrees with torch: values" in message
    assert "inputs: float32[2, 3], float32[2, 3] strides [1, 2]" in message
    assert "6 of 6 values differ by more than rtol 1.3e-06, atol 1e-05" in message
    assert "largest absolute error 0.5 at [0, 0] (torch 1.0, kernel 1.5), largest relative error 0.5" in message


def test_uninitialized_memory_is_not_compared():
    with NumpyMode(crosscheck=True, table=TorchTable()):
        assert torch.empty(100).shape == torch.empty_like(torch.ones(100)).shape == (100,)


def test_any_of_equal_values_may_be_picked():
    def last_of_equals(self, dim=-1, keepdim=False):
        return self.max(dim, keepdims=keepdim), self.shape[dim] - 1 - np.argmax(
            np.flip(self, dim), dim, keepdims=keepdim
        )

    def last(self, k, dim=-1, keepdim=False):
        return last_of_equals(self, dim, keepdim)

    x = torch.tensor([[1, 3, 3, 0], [2, 2, 2, 2]])
    with NumpyMode(crosscheck=True, table=Broken({"kthvalue": last})):
        assert x.kthvalue(4)[1].tolist() == [2, 3]
        assert x.kthvalue(4, keepdim=True)[1].tolist() == [[2], [3]]
        with pytest.raises(CrossCheckError):
            x.kthvalue(1)


def test_inputs_that_share_memory_do_so_for_torch_too():
    with NumpyMode(crosscheck=True, table=TorchTable()):
        x = torch.arange(6.0)
        x[:3].add_(x[:3])
        x.add_(x)
        torch._foreach_add_([x[1:], x[:2]], 1)
    assert x.tolist() == [1.0, 6.0, 9.0, 7.0, 9.0, 11.0]
