"""Samples of our own, for overloads that no OpInfo entry reaches: each row is a call in torch's spelling."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

from .record import Recorder
from .samples import reseed
from .torch_backend import TORCH_DTYPES

SOURCE = "own"

# The dtypes of a row: floats, integers, booleans, complex; "-" is a row without arrays, in float32's turn.
KINDS = {"f": ("float32", "float64", "bfloat16", "float16"), "i": ("int64", "uint8"), "b": ("bool",),
         "c": ("complex64",), "-": ("float32",)}  # fmt: skip

# x(shape) makes an array of the row's dtype, p(shape) a positive one, ints(shape) indices below 4, g() a generator.
ROWS = """
f    _adaptive_avg_pool2d_backward  (x(2,3,2,2), x(2,3,7,5))
f    _adaptive_avg_pool2d_backward  (x(3,2,3), x(3,6,6))
f    avg_pool2d_backward  (x(2,3,3,3), x(2,3,6,6), [2,2], [2,2], [0,0], False, True, None)
f    avg_pool2d_backward  (x(2,3,4,4), x(2,3,7,7), [3,3], [2,2], [1,1], True, False, None)
fic  pow.Scalar  (2, p(3,4))
fc   pow.Scalar  (1.5, x(5))
fi   fmod.Scalar  (x(3,4), 2)
f    fmod.Scalar  (x(7), -1.5)
fi   div.Scalar_mode  (x(3,4), 2, rounding_mode='floor')
f    div.Scalar_mode  (x(3,4), 1.5, rounding_mode='trunc')
fic  div.Scalar_mode  (x(3), 2, rounding_mode=None)
f    var.dim  (x(3,4), [0])
f    var.dim  (x(3,4), [0,1], False, True)
f    var_mean.dim  (x(3,4), [1], True, True)
f    std.dim  (x(3,4), [0])
-    randperm  (7)
-    randperm  (0)
-    randperm.generator  (7, generator=g())
fib  copy  (x(3,4), x(4))
ib   bitwise_and.Scalar  (x(3,4), 5)
ib   bitwise_or.Scalar  (x(3,4), 5)
ib   bitwise_xor.Scalar  (x(3,4), 5)
ib   bitwise_and.Scalar_Tensor  (6, x(3,4))
ib   bitwise_or.Scalar_Tensor  (6, x(3,4))
ib   bitwise_xor.Scalar_Tensor  (6, x(3,4))
i    bitwise_left_shift.Tensor_Scalar  (x(3,4), 2)
i    bitwise_left_shift.Scalar_Tensor  (3, p(3,4))
i    bitwise_right_shift.Tensor_Scalar  (x(3,4), 2)
i    bitwise_right_shift.Scalar_Tensor  (300, p(3,4))
ib   __and__.Scalar  (x(3,4), 1)
ib   __and__.Tensor  (x(3,4), x(4))
ib   __or__.Scalar  (x(3,4), 1)
ib   __or__.Tensor  (x(3,4), x(4))
ib   __xor__.Scalar  (x(3,4), 1)
ib   __xor__.Tensor  (x(3,4), x(4))
i    __lshift__.Scalar  (x(3,4), 1)
i    __lshift__.Tensor  (x(3,4), p(4))
i    __rshift__.Scalar  (x(3,4), 1)
i    __rshift__.Tensor  (x(3,4), p(4))
ib   __iand__.Tensor  (x(3,4), x(4))
ib   __ior__.Scalar  (x(3,4), 1)
ib   __ixor__.Tensor  (x(3,4), x(4))
i    __ilshift__.Scalar  (x(3,4), 1)
i    __irshift__.Tensor  (x(3,4), p(4))
f    bernoulli.p  (x(3,4), 0.3)
f    bernoulli.p  (x(20,20), 0.5, generator=g())
f    bernoulli.Tensor  (x(3,4), torch.rand(3,4))
f    bernoulli_.Tensor  (x(20,20), torch.rand(20,20))
f    dropout  (x(30,4), 0.3, True)
f    dropout  (x(30,4), 0.3, False)
f    dropout  (x(3,4), 1.0, True)
f    native_dropout  (x(30,4), 0.3, True)
f    native_dropout  (x(30,4), 0.3, False)
f    native_dropout  (x(3,4), 0.0, None)
f    feature_dropout  (x(3,4,2,2), 0.3, True)
f    alpha_dropout  (x(30,4), 0.3, True)
f    feature_alpha_dropout  (x(3,4,2,2), 0.3, True)
f    _native_batch_norm_legit_no_training  (x(2,3,4), x(3), x(3), x(3), p(3), 0.1, 1e-5)
f    _native_batch_norm_legit_no_training  (x(2,3,4), None, None, x(3), p(3), 0.1, 1e-5)
f    batch_norm  (x(2,3,4), x(3), x(3), x(3), p(3), True, 0.1, 1e-5, False)
f    batch_norm  (x(2,3,4), x(3), x(3), x(3), p(3), False, 0.1, 1e-5, False)
f    instance_norm  (x(2,3,4), x(3), x(3), None, None, True, 0.1, 1e-5, False)
f    upsample_nearest1d.vec  (x(2,3,4), [7], None)
f    upsample_nearest2d.vec  (x(2,3,4,5), [7,3], None)
f    upsample_nearest2d.vec  (x(2,3,4,5), None, [2.0,1.5])
f    upsample_nearest3d.vec  (x(2,3,4,5,3), [7,3,4], None)
f    _upsample_nearest_exact1d.vec  (x(2,3,4), [7], None)
f    _upsample_nearest_exact2d.vec  (x(2,3,4,5), None, [2.0,1.5])
f    _upsample_nearest_exact3d.vec  (x(2,3,4,5,3), [7,3,4], None)
f    upsample_linear1d.vec  (x(2,3,4), [7], True, None)
f    upsample_bilinear2d.vec  (x(2,3,4,5), [7,3], False, None)
f    upsample_bilinear2d.vec  (x(2,3,4,5), None, True, [2.0,1.5])
f    upsample_trilinear3d.vec  (x(2,3,4,5,3), [7,3,4], False, None)
f    upsample_bicubic2d.vec  (x(2,3,4,5), [7,3], False, None)
-    rand.generator  ([3,4], generator=g())
-    randn.generator  ([3,4], generator=g())
-    randn.generator  ([5,7], generator=g(), dtype=torch.float64)
-    randint.generator  (9, [3,4], generator=g())
-    randint.low_generator  (-4, 9, [3,4], generator=g())
-    normal.float_float  (1.5, 2.0, [20], generator=g())
fib  random  (x(3,4))
fi   random.from  (x(3,4), -7, 9)
fi   random.to  (x(3,4), 9)
fi   random.from  (x(3,4), 0, None)
fi   where.ScalarSelf  (m(3,4), 2, x(3,4))
fi   where.ScalarOther  (m(3,4), x(3,4), 2.5)
-    where.Scalar  (m(3,4), 1, 2.5)
-    where.Scalar  (m(3,4), 1, 2)
fb   where  (x(3,4))
fibc zero  (x(3,4))
fibc zero_  (x(3,4))
fibc fill.Tensor  (x(3,4), torch.tensor(3))
fi   float_power.Scalar  (2, x(3,4))
fi   float_power.Tensor_Scalar  (p(3,4), 1.5)
fi   floor_divide.Scalar  (x(3,4), 2)
f    floor_divide.Scalar  (x(3,4), -1.5)
fi   remainder.Scalar_Tensor  (7, p(3,4))
fi   remainder.Scalar  (x(3,4), -2)
fi   xlogy.Scalar_Self  (2, p(3,4))
fi   xlogy.Scalar_Other  (x(3,4), 2)
fi   special_xlog1py.self_scalar  (2, p(3,4))
fi   special_xlog1py.other_scalar  (x(3,4), 2)
fi   special_zeta.self_scalar  (3, p(3,4))
fi   special_zeta.other_scalar  (p(3,4), 2)
f    special_chebyshev_polynomial_t.x_scalar  (0.5, ints(3,4))
f    special_chebyshev_polynomial_t.n_scalar  (x(3,4), 3)
f    special_chebyshev_polynomial_u.n_scalar  (x(3,4), 3)
f    special_hermite_polynomial_h.n_scalar  (x(3,4), 3)
f    special_hermite_polynomial_he.n_scalar  (x(3,4), 3)
f    special_laguerre_polynomial_l.n_scalar  (x(3,4), 3)
f    special_legendre_polynomial_p.n_scalar  (x(3,4), 3)
-    range  (0, 5)
-    range.step  (0.5, 5, 1.5)
-    bucketize.Scalar  (1.5, torch.tensor([0.0, 1.0, 2.0]))
fic  is_complex  (x(3))
fi   is_floating_point  (x(3))
fib  is_same_size  (x(3), x(3,1))
fib  numel  (x(3,4))
fib  dim  (x(3,4))
fib  size.int  (x(3,4), 1)
fib  stride.int  (x(3,4), 0)
fib  sym_size.int  (x(3,4), 1)
fib  sym_stride.int  (x(3,4), 0)
fib  sym_numel  (x(3,4))
fib  sym_storage_offset  (x(3,4)[1])
fib  is_nonzero  (x(1))
fibc type_as  (x(3,4), ints(2))
fibc view_as  (x(3,4), x(2,6))
fi   tensordot  (x(3,4), x(4,3), [1], [0])
f    cross_entropy_loss  (x(5,4), ints(5))
f    cross_entropy_loss  (x(5,4), ints(5), None, 2, -100, 0.1)
f    nll_loss_nd  (x(5,4), ints(5))
f    nll_loss2d  (x(2,4,3,3), ints(2,3,3))
f    cosine_embedding_loss  (x(5,4), x(5,4), torch.tensor([1.,-1.,1.,1.,-1.]))
f    kl_div  (x(3,4), p(3,4), 1)
f    poisson_nll_loss  (x(3,4), p(3,4), True, False, 1e-8, 1)
f    embedding_bag  (x(4,3), ints(6), torch.tensor([0,2,4]))
f    embedding_bag  (x(4,3), ints(6), torch.tensor([0,2,4]), False, 1)
f    _embedding_bag  (x(4,3), ints(6), torch.tensor([0,2,4]))
f    _embedding_bag  (x(4,3), ints(6), torch.tensor([0,2,6]), False, 2)
f    embedding_dense_backward  (x(6,3), ints(6), 4, -1, False)
f    embedding_dense_backward  (x(6,3), ints(6), 4, 2, True)
f    conv_tbc  (x(5,2,3), x(3,3,4), x(4), 1)
fi   cartesian_prod  ([x(3), x(2)])
fi   meshgrid  ([x(3), x(2)])
fibc fill_diagonal_  (x(4,3), 1)
f    chain_matmul  ([x(2,3), x(3,4), x(4,2)])
fi   ger  (x(3), x(4))
fibc row_stack  ([x(3), x(3)])
fibc moveaxis.int  (x(2,3,4), 0, 2)
fibc nonzero_numpy  (x(3,4))
fibc tensor_split.tensor_indices_or_sections  (x(6,2), torch.tensor(3))
fi   _stack  ([x(3), x(3)], 1)
fibc _reshape_alias  (x(3,4), [2,6], [6,1])
fibc lift  (x(3))
fibc lift_fresh_copy  (x(3))
fi   _cast_Float  (x(3))
fi   _cast_Long  (x(3))
fi   _unsafe_index.Tensor  (x(4,3), [ints(2)])
fi   _unsafe_index_put  (x(4,3), [torch.tensor([0,2])], x(2,3))
fi   gather_backward  (x(2,3), x(4,3), 0, ints(2,3), False)
fi   index_select_backward  (x(2,3), [4,3], 0, torch.tensor([1,3]))
f    native_channel_shuffle  (x(2,4,3), 2)
fi   pad_sequence  ([x(3,2), x(1,2)], True, 0.0)
f    affine_grid_generator  (x(2,2,3), [2,1,4,5], True)
f    col2im  (x(2,12,6), [4,5], [2,2], [1,1], [0,0], [1,2])
"""


class Make:
    """What the rows are written with, for one dtype."""

    def __init__(self, dtype: str) -> None:
        self.dtype = TORCH_DTYPES[dtype]

    def x(self, *shape: int, low: float = -3.0, high: float = 3.0) -> torch.Tensor:
        if self.dtype.is_floating_point or self.dtype.is_complex:
            return torch.empty(shape, dtype=torch.float64).uniform_(low, high).to(self.dtype)
        least = max(int(low), 0) if self.dtype in (torch.uint8, torch.bool) else int(low)
        return torch.randint(least, int(high) + 1, shape).to(self.dtype)

    def p(self, *shape: int) -> torch.Tensor:
        return self.x(*shape, low=1.0)

    @staticmethod
    def names() -> dict[str, Any]:
        return {
            "torch": torch,
            "call": lambda *args, **kwargs: (args, kwargs),
            "ints": lambda *shape: torch.randint(0, 4, shape),
            "m": lambda *shape: torch.rand(shape) < 0.5,
            "g": lambda: torch.Generator().manual_seed(7),
        }


@cache
def rows() -> list[tuple[frozenset[str], str, str]]:
    """Return each row's dtypes, overload and arguments."""
    found = []
    for line in ROWS.strip().splitlines():
        kinds, op, call = line.split(None, 2)
        found.append((frozenset(d for k in kinds for d in KINDS[k]), f"aten::{op}", call))
    return found


def own_reach() -> dict[str, frozenset[str]]:
    """Return what the own rows call, as one more entry."""
    return {SOURCE: frozenset(op for _, op, _ in rows())}


def own_dtypes() -> set[str]:
    return set().union(*(dtypes for dtypes, _, _ in rows()))


def run_own(dtype: str, recorder: Recorder) -> Iterator[None]:
    """Offer all rows of one dtype, one for each step."""
    recorder.source, recorder.sample_dtype = SOURCE, dtype
    make = Make(dtype)
    for dtypes, op, call in rows():
        if dtype in dtypes:
            reseed(op + call)
            args, kwargs = eval(f"call{call}", {**make.names(), "x": make.x, "p": make.p})
            recorder.see(op, args, kwargs)
            yield
