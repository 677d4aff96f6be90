"""Error messages, compared with torch's: the class, and the whole first line, of each refused call."""

import inspect
import math

import numpy as np
import pytest
import torch

import torchnp
from torchnp import dtypes as dt
from torchnp.core import errors
from torchnp.interop import NumpyMode, to_numpy


def f32(*shape):
    return torch.ones(shape)


def ints(*values):
    return torch.tensor(values)


def of(dtype, *shape):
    return torch.ones(shape, dtype=dtype)


# Calls of torch that raise the messages, by the function that makes the message.
_CONV = ([1, 1], [0, 0], [1, 1])
CALLS = {
    "conv_misfit": [
        ("convolution", f32(1, 2, 4, 4), f32(2, 3, 3, 3), None, *_CONV, False, [0, 0], 1),
        ("convolution", f32(1, 2, 4), f32(2, 2, 3, 3), None, *_CONV, False, [0, 0], 1),
        ("convolution", f32(1, 2, 4, 4), f32(3, 1, 3, 3), None, *_CONV, False, [0, 0], 2),
        ("convolution", f32(1, 2, 4, 4), f32(2, 3, 3, 3), f32(2), *_CONV, True, [0, 0], 1),
    ],
    "no_filter": [
        ("convolution", of(torch.float64, 1, 2, 4, 4), of(torch.float64, 2, 2, 0, 3), None, *_CONV, t, [0, 0], 1)
        for t in (False, True)
    ],
    "no_channels": [
        ("convolution", of(torch.float64, 2, 4, *[3] * n), of(torch.float64, 4, 0, *[2] * n), None, [1] * n, [0] * n,
         [1] * n, True, [0] * n, 2)
        for n in (1, 2, 3)
    ],
    "small_output": [
        ("convolution", of(torch.float64, 1, 2, 1, 1), of(torch.float64, 2, 2, 1, 1), None, [1, 1], [1, 1], [1, 1], True,
         [0, 0], 1),
    ],
    "no_primitive": [("convolution", f32(2, 2, 4, 4), f32(2, 2, 3, 0), None, *_CONV, t, [0, 0], 1) for t in (False, True)],
    "not_implemented": [
        ("ceil", of(torch.bool, 2)),
        ("masked_fill.Scalar", of(torch.uint16, 2), of(torch.bool, 2), 1),
        ("flip", of(torch.float8_e5m2, 2), [0]),
        ("cumsum", of(torch.complex32, 2), 0),
        ("topk", of(torch.complex64, 2), 1),
        ("lerp.Tensor", *[of(torch.int32, 2)] * 3),
    ],
    "overflow": [("clamp", f32(2), math.nan, 2j), ("fill.Scalar", of(torch.uint8, 2), 255.5), ("celu", f32(2), 2j),
      ("add.Tensor", f32(2), f32(2), 1e39)],
    "cannot_cast": [
        ("add_.Tensor", of(torch.int64, 2), f32(2)),
        ("add.out", f32(2), f32(2), {"out": of(torch.int16, 2)}),
        ("mul_.Tensor", f32(2), of(torch.complex64, 2)),
        ("clamp_", of(torch.int32, 2), 0.5),
        ("dropout_", of(torch.int64, 2), 0.5, True),
        ("_euclidean_dist", of(torch.int64, 2, 3), of(torch.int64, 2, 3)),
    ],
    "out_dtype": [
        ("sum.IntList_out", f32(2), [0], False, {"dtype": torch.float64, "out": f32()}),
        ("linalg_matrix_power.out", f32(2, 2), 2, {"out": of(torch.float64, 2, 2)}),
        ("linalg_eigh.eigvals", of(torch.complex64, 2, 2), {"eigvals": f32(2), "eigvecs": f32(2, 2)}),
    ],
    "expected_type": [
        ("mv", f32(2, 2), of(torch.float64, 2)),
        ("nll_loss", f32(2, 3), ints(0, 1), of(torch.float64, 3), 1, -100),
        ("_softmax_backward_data", f32(2), of(torch.float64, 2), 0, torch.float32),
        ("max_pool2d_with_indices_backward", f32(1, 1, 1), f32(1, 2, 2), [2, 2], [], [0, 0], [1, 1], False,
         of(torch.int32, 1, 1, 1)),
        ("grid_sampler_2d", f32(1, 1, 2, 2), of(torch.float64, 1, 2, 2, 2), 0, 0, False),
        ("rrelu_with_noise", f32(2), of(torch.float64, 2), 0.1, 0.3, True),
    ],
    "found_dtype": [
        ("clip.out", of(torch.bfloat16, 2), 2j, {"out": f32(2)}),
        ("clamp_max.out", of(torch.int32, 2), 1e39, {"out": of(torch.int32, 2)}),
        ("binomial", f32(2), of(torch.float64, 2)),
        ("_prelu_kernel", f32(2), of(torch.float64, 2)),
    ],
    "mean_of": [("l1_loss", of(torch.int64, 2), of(torch.int64, 2)), ("adaptive_avg_pool1d", of(torch.int32, 1, 2, 2), [1])],
    "dense_dtype": [
        ("mkldnn_convolution", *(of(torch.float64, 1, 1, n, n) for n in (3, 2)), None, [0, 0], [1, 1], [1, 1], 1),
    ],
    "complex_clamp": [
        ("clamp", of(torch.complex64, 2), 1), ("clamp_max", f32(2), 1j), ("relu", of(torch.complex64, 2)),
        ("_addmm_activation", *[of(torch.complex64, 1, 1)] * 3),
    ],
    "expected_true": [("native_group_norm", f32(2, 4, 3), None, None, 2, 4, 5, 2, 1e-5)],
    "size_mismatch": [("add.Tensor", f32(2), f32(3)), ("where.self", of(torch.bool, 4), f32(2), f32(2))],
    "expand_mismatch": [
        ("expand", f32(2, 3), [2, 4]),
        ("addmm", f32(3), f32(2, 2), f32(2, 2)),
        ("bernoulli.Tensor", f32(2), f32(3)),
        ("masked_scatter_", f32(2, 3), of(torch.bool, 2), f32(6)),
    ],
    "too_few_sizes": [
        *(("expand", of(d, 2, 3), [3]) for d in (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.uint8)),
        ("addmm", f32(1, 2, 2), f32(2, 2), f32(2, 2)),
        ("masked_scatter_", f32(3), of(torch.bool, 2, 3), f32(6)),
        ("bernoulli.Tensor", f32(2), f32(1, 2)),
    ],
    "output_shape": [
        ("add_.Tensor", f32(2), f32(3, 2)), ("copy", f32(2), f32(3, 2)), ("mul_.Tensor", f32(), f32(2)),
        ("binary_cross_entropy_with_logits", f32(2), f32(2), f32(3, 2)),
    ],
    "negative_size": [
        ("full", [2, -1], 1), ("repeat", f32(2), [-1]), ("fft_fftfreq", -4), ("reflection_pad1d", f32(1, 4), [-3, -3]),
        ("adaptive_max_pool2d", f32(1, 4, 4), [-1, 2]),
    ],
    "invalid_view": [("view", f32(6), [4]), ("reshape", f32(2, 3), [-1, 4])],
    "ambiguous_view": [("view", f32(0), [-1, 0]), ("reshape", f32(2, 0), [0, -1])],
    "batch2_mismatch": [
        ("bmm", f32(2, 3, 4), f32(2, 3, 4)), ("matmul", f32(2, 3, 4), f32(3, 4)), ("matmul", f32(2, 1, 3, 4), f32(5, 3, 4)),
        ("baddbmm", f32(1), f32(2, 3, 4), f32(3, 4, 4)),
    ],
    "dim_out_of_range": [
        ("sum.dim_IntList", f32(2), [1]), ("squeeze.dim", f32(), -2), ("softmax.int", f32(2, 3), 2),
        ("repeat_interleave.self_int", f32(), 2, 0), ("_pdist_forward", f32(2)), ("avg_pool2d", f32(2), [1, 1]),
    ],
    "no_dimensions": [
        ("unbind.int", f32()), ("roll", f32(), [1], [0]), ("fft_fft", f32()),
        ("unique_dim", f32(), 0), ("_pdist_forward", f32()), ("trapezoid.dx", f32()), ("size.int", f32(), 0),
    ],
    "index_out_of_range": [
        ("embedding", f32(2, 3), ints(2)), ("index_add", f32(2), 0, ints(2), f32(1)),
        ("index_reduce", f32(2), 0, ints(2), f32(1), "mean"), ("index_select", f32(2, 3), 1, ints(3)),
    ],
    "empty_list": [("_foreach_add.Scalar", [], 1), ("_foreach_max", []), ("_foreach_clone", []), ("_foreach_zero", [])],
    "multi_target": [
        ("nll_loss", f32(2, 3), ints(0, 1)[None], None, 1, -100),
        ("cosine_embedding_loss", f32(2, 3), f32(2, 3), f32(2, 2)),
    ],
    "unknown_reduction": [
        ("scatter_reduce.two", f32(2), 0, ints(0), f32(1), "no"), ("segment_reduce", f32(2), "no", {"lengths": ints(2)}),
    ],
}  # fmt: skip

ROWS = [pytest.param(name, *call, id=f"{name}-{call[0]}-{i}") for name in CALLS for i, call in enumerate(CALLS[name])]


def converted(a, change):
    if isinstance(a, list):
        return [converted(x, change) for x in a]
    return change(a) if isinstance(a, (torch.Tensor, torch.dtype)) else a


def refusal(f, args, named):
    with pytest.raises((RuntimeError, IndexError, ValueError, TypeError, NotImplementedError)) as found:
        f(*args, **named)
    return type(found.value).__name__, str(found.value).partition("\n")[0]


@pytest.mark.parametrize(
    ("name", "op", "args"), [pytest.param(p.values[0], p.values[1], p.values[2:], id=p.id) for p in ROWS]
)
def test_words(name, op, args):
    *args, named = args if isinstance(args[-1], dict) else (*args, {})
    base, _, overload = op.partition(".")
    mine = lambda x: str(x).removeprefix("torch.") if isinstance(x, torch.dtype) else to_numpy(x).copy()
    arrays = [converted(a, mine) for a in args], {k: converted(v, mine) for k, v in named.items()}
    found = refusal(torchnp.table[f"aten::{op}"], *arrays)
    theirs = getattr(getattr(torch.ops.aten, base), overload or "default")
    assert found == refusal(theirs, args, named)


def test_every_line_has_a_call():
    lines = {k for k, f in vars(errors).items() if inspect.isfunction(f) and f.__module__ == errors.__name__}
    assert lines - {"shape_text", "tensor_type", "by"} == set(CALLS)


@pytest.mark.parametrize("dtype", dt.ALL, ids=str)
def test_a_type_as_expand_prints_it(dtype):
    x = torch.empty(2, 3, dtype=getattr(torch, dt.dtype_name(dtype)))
    expected = refusal(torch.Tensor.expand, (x, 3), {})
    assert refusal(torchnp.aten.expand, (np.empty((2, 3), dtype), [3]), {}) == expected


BEYOND = {
    "empty": lambda: torch.empty(2**62, 8),
    "zeros": lambda: torch.zeros(2**40, 2**40),
    "arange": lambda: torch.arange(2**62, dtype=torch.float64),
    "contiguous": lambda: torch.ones(1).expand(2**62).contiguous(),
    "broadcast": lambda: torch.ones(1).expand(2**40)[:, None] * torch.ones(1).expand(2**40),
    "tile": lambda: torch.ones(3, 3).tile(2**40, 2**40),
    "memory": lambda: torch.empty(2**50),
}


@pytest.mark.parametrize("name", BEYOND)
def test_sizes_beyond_all_memory_are_refused_as_torch_does(name):
    with pytest.raises(RuntimeError) as torchs:
        BEYOND[name]()
    with NumpyMode(), pytest.raises(RuntimeError) as mine:
        BEYOND[name]()
    words = "can't allocate memory" if name == "memory" else "Storage size calculation overflowed"
    assert words in str(torchs.value) and words in str(mine.value)
    if name == "empty":
        with pytest.raises(
            RuntimeError, match=r"^Storage size calculation overflowed with sizes=\[4611686018427387904, 8\]"
        ):
            torchnp.aten.empty([2**62, 8])
