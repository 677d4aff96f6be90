"""Gradients, and rows that few programs need, agree with the table on array-api-strict and torch."""

from __future__ import annotations

import numpy as np
import pytest

from torchnp import table
from torchnp.portable.libraries import library_for

RNG = np.random.default_rng(0)
g, x, y = (RNG.normal(size=(3, 6)) for _ in range(3))
p, q = 1 / (1 + np.exp(-x)), (y > 0) * 1.0
SOFTMAX, LOG_SOFTMAX = table["aten::_softmax"](x, 1, False), table["aten::_log_softmax"](x, 1, False)
BUFFER = table["aten::log_sigmoid_forward"](x)[1]

CALLS = [
    ("aten::tanh_backward", g, y),
    ("aten::sigmoid_backward", g, p),
    ("aten::silu_backward", g, x),
    ("aten::mish_backward", g, x),
    ("aten::hardsigmoid_backward", g, x * 4),
    ("aten::hardswish_backward", g, x * 4),
    ("aten::gelu_backward", g, x),
    ("aten::threshold_backward", g, x, 0.1),
    ("aten::hardtanh_backward", g, x, -1, 1),
    ("aten::leaky_relu_backward", g, x, 0.1, False),
    ("aten::elu_backward", g, 1.5, 1.1, 0.9, False, x),
    ("aten::elu_backward", g, 1.5, 1.1, 0.9, True, x),
    ("aten::softplus_backward", g, x, 2, 1),
    ("aten::log_sigmoid_backward", g, x, BUFFER),
    ("aten::mse_loss_backward", g, x, y, 0),
    ("aten::smooth_l1_loss_backward", g, x, y, 0, 0.5),
    ("aten::huber_loss_backward", g, x, y, 0, 0.5),
    ("aten::binary_cross_entropy_backward", g, p, q, None, 0),
    ("aten::_softmax_backward_data", g, SOFTMAX, 1, "float64"),
    ("aten::_log_softmax_backward_data", g, LOG_SOFTMAX, 1, "float64"),
    ("aten::glu_backward", g[:, :3], x, 1),
    ("aten::select_backward", g, [3, 2, 6], 1, 0),
    ("aten::slice_backward", g, [3, 9], 1, 1, 7, 1),
    ("aten::diagonal_backward", g[:, :3], [3, 3, 4], 0, 1, 2),
    ("aten::log_sigmoid_forward", x),
    ("aten::addr", g, x[:, 0], y[0]),
    ("aten::fliplr", x),
    ("aten::flipud", x),
    ("aten::dstack", [x, y]),
    ("aten::column_stack", [x[0], y.T]),
    ("aten::block_diag", [x, y[0]]),
    ("aten::tensor_split.indices", x, [2, 4], 1),
    ("aten::tensor_split.sections", x, 4, 1),
    ("aten::hsplit.int", x, 3),
    ("aten::vsplit.array", x, [1]),
    ("aten::dsplit.int", x[None], 2),
    ("aten::narrow.Tensor", x, 1, np.array(2), 3),
    ("aten::std_mean.dim", x, [1]),
    ("aten::var_mean.dim", x, [1]),
    ("aten::std_mean.correction", x, [1]),
    ("aten::norm.ScalarOpt_dim_dtype", x, 2, [1], False),
    ("aten::linalg_diagonal", x),
    ("aten::moveaxis.int", x, 0, 1),
    ("aten::to.device", x, "cpu", "float32"),
    ("aten::kl_div", x, y, 0),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
@pytest.mark.parametrize("call", CALLS, ids=[f"{i} {c[0]}" for i, c in enumerate(CALLS)])
def test_a_row_agrees_with_the_table(library, call):
    lib, (name, *args) = library_for(library), call
    kwargs = {"dtype": "float64"} if name.endswith("dim_dtype") else {}

    def given(v):
        return lib.from_numpy(v) if isinstance(v, np.ndarray) else [given(i) for i in v] if isinstance(v, list) else v

    found, want = lib.call(name, *map(given, args), **kwargs), table[name](*args, **kwargs)
    found, want = ([v] if hasattr(v, "dtype") else list(v) for v in (found, want))
    for a, b in zip(found, want, strict=True):
        a = lib.to_numpy(a)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_losses_that_are_reduced_go_to_the_host():
    lib = library_for("array_api_strict")
    assert lib.call("aten::mse_loss_backward", *map(lib.from_numpy, (g, x, y)), 1) is NotImplemented
