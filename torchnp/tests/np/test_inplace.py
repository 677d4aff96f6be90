"""In-place operators within `semantics`: NumPy's result in the same memory, or NumPy's error and an unchanged
operand."""

import numpy as np
import pytest
import torch

import torchnp.np as tnp

OPERATORS = ["+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^=", "<<=", ">>=", "@="]
PAIRS = [
    (np.array([1, 2]), np.ones(2, np.float32)),
    (np.array([1, 2]), np.array([1, 2])),
    (np.array([1.5, 2], np.float32), np.array([1, 2])),
    (np.array([1, 2]), 1.5),
    (np.array([1, 2]), np.float64(1.5)),
    (np.array(2), np.ones(2)),
    (np.array([True, False]), np.array([2, 1])),
    (np.array([True, False]), np.array([True, True])),
    (np.array([1, 2], np.uint8), 3),
    (np.array([1, 2], np.int8), np.array([3, 1])),
    (np.eye(2), np.array([[1, 2], [3, 4]])),
    (np.eye(2, dtype=np.int64), np.array([[1, 2], [3, 4]])),
    (np.ones(2), np.array([[1.0, 2.0]])),
]


def outcome(x, operator, y):
    """Return the target's value and identity after the operator, or its error and the value."""
    names = {"x": x, "y": y}
    try:
        exec(f"x {operator} y", names)
        return "ok", str(np.asarray(names["x"]).dtype), np.asarray(names["x"]).tolist(), names["x"] is x
    except Exception as error:
        return type(error), str(error), np.asarray(x).tolist(), True


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("pair", range(len(PAIRS)))
@pytest.mark.filterwarnings("ignore")
def test_in_place(operator, pair):
    x, y = PAIRS[pair]
    want = outcome(x.copy(), operator, y)
    with tnp.semantics():
        found = outcome(torch.from_numpy(x.copy()), operator, torch.from_numpy(y) if isinstance(y, np.ndarray) else y)
    assert found == want


def test_outside_it_is_torchs():
    x = torch.tensor([1, 2])
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type"):
        x += torch.ones(2)
    with pytest.raises(TypeError, match="unsupported operand"):
        x += "a"
    y = x = torch.eye(2)
    x @= x
    assert x is not y


def test_other_classes_still_take_over():
    class Other:
        def __radd__(self, x):
            return "other"

    x = torch.ones(2)
    with tnp.semantics():
        x += x
    x += Other()
    assert x == "other"


def test_on_handles_and_compiled():
    from torchnp import rpc

    session = rpc.local()
    handle = session.send(torch.tensor([1, 2]))
    with tnp.semantics(), pytest.raises(TypeError, match="Cannot cast ufunc 'add' output"):
        handle += session.send(torch.ones(2))
    assert handle.publish().tolist() == [1, 2]

    def step(a, b):
        with tnp.semantics():
            a += b
            return a + b

    out = torch.compile(step, backend="eager")(torch.ones(2, dtype=torch.float64), torch.tensor([1, 2]))
    assert out.tolist() == [3.0, 5.0]
