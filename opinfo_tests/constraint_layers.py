"""The constraint rows of matrices, transforms, layers, losses and optimisers; `constraints` says how they are read."""

from __future__ import annotations

from . import constraint_rows  # noqa: F401  the rows here come over those
from .constraints import C, I, L, N, T, Ts, rule, sizes

rule("linalg_* _linalg_* svd qr geqrf orgqr ormqr lu_* nuclear_norm pinverse cholesky* matrix_exp _cholesky* inverse det logdet slogdet "
     "triangular_solve matrix_power", dtypes="lapack", mixed=2, values="tame")  # fmt: skip
rule("mm bmm addmm* addbmm baddbmm mv addmv addr dot vdot inner ger outer matmul linear bilinear linalg_matmul einsum chain_matmul linalg_multi_dot "
     "tensordot kron cross linalg_cross _addmm_activation", dtypes="inexact", mixed=3)  # fmt: skip
rule("linalg_vecdot linalg_vector_norm linalg_norm linalg_matrix_norm", dtypes="inexact")

# ---------------------------------------------------------------- matrices

rule("mm", args={"self": T("n k"), "mat2": T("k m", "same")})
rule("bmm", args={"self": T("n c k"), "mat2": T("n k m", "same")})
rule("addmm*", args={"self": T("~n ~m"), "mat1": T("n k", "same"), "mat2": T("k m", "same")})
rule("addbmm", args={"self": T("~c ~m"), "batch1": T("n c k", "same"), "batch2": T("n k m", "same")})
rule("baddbmm", args={"self": T("~n ~c ~m"), "batch1": T("n c k", "same"), "batch2": T("n k m", "same")})
rule("mv", args={"self": T("n k"), "vec": T("k", "same")})
rule("addmv", args={"self": T("~n"), "mat": T("n k", "same"), "vec": T("k", "same")})
rule("addr", args={"self": T("~n ~m"), "vec1": T("n", "same"), "vec2": T("m", "same")})
rule("dot vdot inner", args={"self": T("k"), "other": T("k", "same"), "tensor": T("k", "same")})
rule("ger outer", args={"self": T("n"), "vec2": T("m", "same")})
rule("matmul linalg_matmul", args={"self": T("* n k"), "other": T("* k m", "same")})
rule("linear", args={"input": T("* n k"), "weight": T("m k", "same"), "bias": T("m", "same")}, dtypes="float")
rule(
    "bilinear",
    args={"input1": T("n k", "same"), "input2": T("n m", "same"), "weight": T("c k m", "same"), "bias": T("c", "same")},
    dtypes="float",
)
rule("kron", args={"other": T("any", "same")}, most_dims=3)
rule("cross linalg_cross", args={"self": T("n 3"), "other": T("n 3", "same"), "dim": C((-1, 1))})
rule("tensordot", args={"self": T("n k"), "other": T("k m", "same"), "dims_self": C(([1],)), "dims_other": C(([0],))})
rule(
    "cdist _cdist_forward",
    args={"x1": T("* n k"), "x2": T("* m k", "same"), "p": C((2.0, 1.0, 0.0, 3.0)), "compute_mode": C((None, 1, 2))},
    dtypes="wide",
)
rule("_euclidean_dist", args={"x1": T("n k"), "x2": T("m k", "same")}, dtypes="wide")
rule("pdist _pdist_forward", args={"self": T("n k")}, dtypes="wide")
SQUARE = {n: T("* n n", "main", "square") for n in ("self", "A", "input", "LU")}
rule("linalg_inv* inverse linalg_det _linalg_det det logdet slogdet linalg_slogdet _linalg_slogdet linalg_lu* linalg_eig* _linalg_eigh "
     "linalg_matrix_exp matrix_exp linalg_ldl* linalg_eigvals* trace matrix_power linalg_matrix_power", args=SQUARE)  # fmt: skip
rule("trace", args={"self": T("n m")})
rule("linalg_matrix_power matrix_power", args={"n": I(-2, 4), "self": T("* c c", "main", "square")})
rule("linalg_cholesky linalg_cholesky_ex cholesky", args={"self": T("* n n", "main", "spd")})
rule(
    "linalg_svd* _linalg_svd svd linalg_qr qr linalg_pinv* pinverse linalg_matrix_rank*",
    args={"self": T("* n m"), "A": T("* n m")},
)
rule("linalg_solve* _linalg_solve_ex", args={"A": T("* n n", "main", "square"), "B": T("* n m", "same")})
rule("triangular_solve", args={"self": T("n m"), "A": T("n n", "same", "square")})
rule(
    "linalg_solve_triangular", args={"self": T("* n n", "main", "square"), "B": T("* n m", "same"), "left": C((True,))}
)

# ---------------------------------------------------------------- convolutions and pools

CONV_SIZES = {
    "k": (1, 3),
    "kw": (1, 3),
    "kd": (1, 2),
    "h": (3, 6),
    "w": (3, 6),
    "d": (2, 4),
    "o": (1, 3),
    "c": (1, 3),
    "g": (1, 2),
}


def conv(n: int, transposed: bool = False) -> dict:
    space = {1: "h", 2: "h w", 3: "d h w"}[n]
    kernel = {1: "k", 2: "k kw", 3: "kd k kw"}[n]
    weight = f"g*c o {kernel}" if transposed else f"g*o c {kernel}"
    return {
        "input": T(f"n g*c {space}"), "weight": T(weight, "same"), "bias": T("g*o", "same"), "stride": L(n, 1, 3), "padding": L(n, 0, 2),
        "dilation": L(n, 1, 1), "groups": I("g", "g", always=True), "output_padding": L(n, 0, 0),
    }  # fmt: skip


GROUPS = {
    "sizes": CONV_SIZES,
    "always": frozenset(["groups", "stride", "padding", "dilation", "output_padding", "bias"]),
}
for _n in (1, 2, 3):
    rule(f"conv{_n}d", args=conv(_n), **GROUPS)
    rule(f"conv{_n}d.padding", args={**conv(_n), "padding": C(("same", "valid")), "stride": L(_n, 1, 1)}, **GROUPS)
    rule(f"conv_transpose{_n}d*", args=conv(_n, transposed=True), **GROUPS)
rule(
    "convolution _convolution* convolution_overrideable",
    args={**conv(2), "transposed": C((False,)), "benchmark": C((False,)), "deterministic": C((False,))},
    **GROUPS,
)
rule("_convolution_mode", args={**conv(2), "padding": C(("same", "valid")), "stride": L(2, 1, 1)}, **GROUPS)
rule("convolution_backward", args={**conv(2), "grad_output": T("n g*o h w"), "input": T("n g*c h w", "same"), "weight": T("g*o c 3 3", "same"),
     "stride": L(2, 1, 1), "padding": L(2, 1, 1), "transposed": C((False,)), "bias_sizes": lambda c: [c.value("g*o")]}, **GROUPS)  # fmt: skip
rule(
    "conv_tbc",
    args={"self": T("h n c"), "weight": T("k c o", "same"), "bias": T("o", "same"), "pad": I(0, 2)},
    **GROUPS,
)

POOL_SIZES = {"h": (3, 7), "w": (3, 7), "d": (3, 5)}
for _n, _space in ((1, "h"), (2, "h w"), (3, "d h w")):
    _args = {"self": T(f"n? c {_space}"), "kernel_size": L(_n, 1, 3), "stride": L(_n, 1, 3), "padding": L(_n, 0, 0), "dilation": L(_n, 1, 1),
             "output_size": L(_n, 1, 4), "divisor_override": C((None, 2, 5))}  # fmt: skip
    rule(f"*pool{_n}d*", args=_args, sizes=POOL_SIZES, always=frozenset(["stride"]))
rule("avg_pool?d_backward", args={"kernel_size": L("ndim-2", 2, 2), "stride": L("ndim-2", 2, 2)}, sizes=POOL_SIZES)
rule(
    "avg_pool2d_backward",
    args={
        "self": T("n c 4 6", "same"),
        "grad_output": T("n c 2 3"),
        "kernel_size": C(([2, 2],)),
        "stride": C(([2, 2],)),
        "padding": C(([0, 0],)),
        "ceil_mode": C((False,)),
    },
)
rule(
    "avg_pool3d_backward",
    args={
        "self": T("n c 4 2 6", "same"),
        "grad_output": T("n c 2 1 3"),
        "kernel_size": C(([2, 2, 2],)),
        "stride": C(([2, 2, 2],)),
        "padding": C(([0, 0, 0],)),
        "ceil_mode": C((False,)),
    },
)
rule(
    "max_pool2d_with_indices_backward",
    args={
        "self": T("n c 4 6", "same"),
        "grad_output": T("n c 2 3"),
        "indices": T("n c 2 3", "int64", (0, 23)),
        "kernel_size": C(([2, 2],)),
        "stride": C(([2, 2],)),
        "padding": C(([0, 0],)),
        "dilation": C(([1, 1],)),
        "ceil_mode": C((False,)),
    },
)
rule(
    "max_pool3d_with_indices_backward",
    args={
        "self": T("n c 4 2 6", "same"),
        "grad_output": T("n c 2 1 3"),
        "indices": T("n c 2 1 3", "int64", (0, 47)),
        "kernel_size": C(([2, 2, 2],)),
        "stride": C(([2, 2, 2],)),
        "padding": C(([0, 0, 0],)),
        "dilation": C(([1, 1, 1],)),
        "ceil_mode": C((False,)),
    },
)
rule(
    "adaptive_max_pool2d_backward",
    args={"self": T("n c h w", "same"), "grad_output": T("n c 2 3"), "indices": T("n c 2 3", "int64", (0, "h*w-1"))},
    sizes=POOL_SIZES,
)
rule(
    "adaptive_max_pool3d_backward",
    args={
        "self": T("n c d h w", "same"),
        "grad_output": T("n c 2 3 1", layout="c"),
        "indices": T("n c 2 3 1", "int64", (0, "d*h*w-1"), layout="c"),
    },
    sizes=POOL_SIZES,
)
rule(
    "_adaptive_avg_pool2d_backward", args={"self": T("n c h w", "same"), "grad_output": T("n c 2 3")}, sizes=POOL_SIZES
)
rule(
    "_adaptive_avg_pool3d_backward",
    args={"self": T("n c d h w", "same"), "grad_output": T("n c 2 3 1")},
    sizes=POOL_SIZES,
)
rule(
    "constant_pad_nd pad",
    args={"self": T("n m c?"), "pad": lambda c: [c.integer(-1, 2) for _ in range(2 * c.integer(1, 2))]},
    always=frozenset(["value"]),
)
for _n, _space in ((1, "h"), (2, "h w"), (3, "d h w")):
    rule(
        f"reflection_pad{_n}d replication_pad{_n}d",
        args={"self": T(f"n? c {_space}"), "padding": L(2 * _n, 0, 2)},
        sizes=POOL_SIZES,
        dtypes="float",
    )
rule("upsample_*1d*", args={"self": T("n c h"), "output_size": L(1, 1, 6)}, dtypes="float")
rule("upsample_*2d* _upsample_*2d*", args={"self": T("n c h w"), "output_size": L(2, 1, 6)}, dtypes="float")
rule("upsample_*3d* _upsample_*3d*", args={"self": T("n c d h w"), "output_size": L(3, 1, 4)}, dtypes="float")
rule(
    "im2col",
    args={
        "self": T("n? c h w"),
        "kernel_size": L(2, 1, 2),
        "dilation": L(2, 1, 1),
        "padding": L(2, 0, 1),
        "stride": L(2, 1, 2),
    },
    sizes=POOL_SIZES,
    dtypes="float",
)
rule(
    "grid_sampler_2d grid_sampler",
    args={"input": T("n c h w"), "grid": T("n 2 3 2", "same"), "interpolation_mode": I(0, 2), "padding_mode": I(0, 2)},
    dtypes="wide",
)

# ---------------------------------------------------------------- norms and losses

PER_CHANNEL = {
    "weight": T("c", "same"),
    "bias": T("c", "same"),
    "running_mean": T("c", "same", "tame"),
    "running_var": T("c", "same", "positive"),
}
rule("*batch_norm* _batch_norm_impl_index instance_norm", args={"input": T("n c h?"), **PER_CHANNEL, "cudnn_enabled": C((False,)),
     "momentum": C((0.1, 0.5)), "train": C((True, False)), "training": C((True, False))}, mixed=0)  # fmt: skip
rule("_native_batch_norm_legit_functional _batch_norm_with_update_functional _batch_norm_no_update _native_batch_norm_legit_no_training", args={
    k: T(v.shape, v.dtype, v.values, always=True) for k, v in PER_CHANNEL.items()})  # fmt: skip
rule("instance_norm", args={"input": T("n c h"), "use_input_stats": C((True,))})
rule("batch_norm_backward native_batch_norm_backward", args={"grad_out": T("n c h"), "input": T("n c h", "same"), "save_mean": T("c", "same"),
     "save_invstd": T("c", "same", "positive"), "save_var": T("c", "same", "positive"), "reserve": T("0", "uint8"), "update": C((True, False))})  # fmt: skip
rule(
    "layer_norm native_layer_norm rms_norm _fused_rms_norm",
    args={"input": T("n m c"), "normalized_shape": C(([],)), "weight": T("c", "same"), "bias": T("c", "same")},
)
rule(
    "layer_norm native_layer_norm rms_norm _fused_rms_norm native_layer_norm_backward",
    args={"normalized_shape": lambda c: list(c.shape[-1:])},
    sizes={"n": (1, 3), "m": (1, 4), "c": (1, 4)},
)
rule("native_layer_norm_backward", args={"grad_out": T("n m c"), "input": T("n m c", "same"), "mean": T("n m 1", "same", "tame"), "rstd": T("n m 1", "same", "positive"),
     "weight": T("c", "same"), "bias": T("c", "same")})  # fmt: skip
rule("group_norm native_group_norm", args={"input": T("n g*c h"), "num_groups": I("g", "g"), "weight": T("g*c", "same"), "bias": T("g*c", "same"),
     "N": I("n", "n"), "C": I("g*c", "g*c"), "HxW": I("h", "h"), "group": I("g", "g")})  # fmt: skip
rule("native_group_norm_backward", args={"grad_out": T("n g*c h"), "input": T("n g*c h", "same"), "mean": T("n g", "same", "tame"), "rstd": T("n g", "same", "positive"),
     "weight": T("g*c", "same"), "N": I("n", "n"), "C": I("g*c", "g*c"), "HxW": I("h", "h"), "group": I("g", "g")})  # fmt: skip
rule(
    "_weight_norm _weight_norm_interface",
    args={"v": T("n m"), "g": T("n 1", "same", "positive"), "dim": C((0,))},
    dtypes="wide",
)
rule(
    "_weight_norm_interface_backward",
    args={
        "grad_w": T("n m"),
        "saved_v": T("n m", "same"),
        "saved_g": T("n 1", "same"),
        "saved_norms": T("n 1", "same", "positive"),
        "dim": C((0,)),
    },
    dtypes="wide",
)
NLL = {"self": T("n c"), "target": T("n", "int64", (0, "c-1")), "weight": T("c", "same"), "total_weight": T("", "same", "positive"), "label_smoothing": C((0.0, 0.1)),
       "grad_output": T("", "same")}  # fmt: skip
rule("cross_entropy_loss nll_loss nll_loss_nd nll_loss_forward nll_loss_backward", args=NLL, sizes={"n": (1, 3)})
rule("nll_loss_backward", args={"grad_output": T(""), "self": T("n c", "same"), "reduction": I(1, 2)})
rule(
    "nll_loss2d*",
    args={**NLL, "self": T("n c h w"), "target": T("n h w", "int64", (0, "c-1"))},
    sizes={"h": (1, 3), "w": (1, 3)},
)
rule("nll_loss2d_backward", args={"grad_output": T(""), "self": T("n c h w", "same"), "reduction": I(1, 2)})
rule(
    "binary_cross_entropy binary_cross_entropy_backward",
    args={"self": T("any", "main", "unit"), "target": T("like", "same", "unit"), "weight": T("like", "same")},
)
rule("binary_cross_entropy_backward", args={"grad_output": T("any"), "self": T("like", "same", "unit")})
rule("binary_cross_entropy_with_logits mse_loss l1_loss huber_loss smooth_l1_loss soft_margin_loss* kl_div poisson_nll_loss mse_loss_backward "
     "huber_loss_backward smooth_l1_loss_backward", args={"target": T("like", "same"), "weight": T("like", "same"), "pos_weight": T("like", "same")})  # fmt: skip
rule(
    "mse_loss_backward huber_loss_backward smooth_l1_loss_backward soft_margin_loss_backward",
    args={"grad_output": T("any"), "self": T("like", "same")},
)
rule("margin_ranking_loss", args={"input1": T("n"), "input2": T("n", "same"), "target": T("n", "same")})
rule("cosine_embedding_loss", args={"input1": T("n c"), "input2": T("n c", "same"), "target": T("n", "int64", (-1, 1))})
rule(
    "triplet_margin_loss",
    args={"anchor": T("n c"), "positive": T("n c", "same"), "negative": T("n c", "same"), "p": C((2.0, 1.0))},
)
rule(
    "pairwise_distance cosine_similarity",
    args={"x1": T("n c"), "x2": T("n c", "same"), "p": C((2.0, 1.0)), "dim": C((1, -1))},
)
rule("hinge_embedding_loss", args={"target": T("like", "same")})

# ---------------------------------------------------------------- more matrices

MATRIX = T("* n m")
rule("_addmm_activation", args={"self": T("m"), "mat1": T("n k", "same"), "mat2": T("k m", "same")}, dtypes="float")
rule("chain_matmul linalg_multi_dot", args={"matrices": Ts("n n", "same"), "tensors": Ts("n n", "same", count=2)})
rule("linalg_multi_dot", args={"tensors": Ts("n n", "same", count=3)})
rule("cholesky_inverse", args={"self": T("* n n", "main", "spd")})
rule(
    "cholesky_solve _cholesky_solve_helper",
    args={"self": T("* n m"), "input2": T("* n n", "same", "spd"), "A": T("* n n", "same", "spd")},
)
rule("linalg_cond", args={"self": T("* n n", "main", "square"), "p": C((None, 2, -2, 1, float("inf")))})
rule("linalg_cond.p_str", args={"p": C(("fro", "nuc"))})
rule("linalg_eigh linalg_eigvalsh _linalg_eigh", args={"UPLO": C(("L", "U")), "compute_v": C((True, False))})
rule("_linalg_eigvals linalg_eig*", args={"self": T("* n n", "main", "square")})
rule("linalg_svd* _linalg_svd svd", args={"driver": C((None,))})
rule("linalg_qr", args={"mode": C(("reduced", "complete", "r"))})
rule("geqrf", args={"self": MATRIX})
rule(
    "linalg_householder_product orgqr",
    args={"input": T("3 m"), "self": T("3 m"), "tau": T("m", "same"), "input2": T("m", "same")},
    sizes={"m": (1, 3)},
)
rule(
    "ormqr",
    args={"self": T("3 m"), "input2": T("m", "same"), "input3": T("3 c", "same"), "left": C((True,))},
    sizes={"m": (1, 3)},
)
rule("linalg_lstsq", args={"self": T("* n m"), "b": T("* n c", "same"), "driver": C((None, "gelsd", "gelsy"))})
LU = {
    "LU": T("n n", "main", "square"),
    "LU_data": T("n n", "same", "square"),
    "pivots": T("n", "int32", ("n", "n")),
    "LU_pivots": T("n", "int32", ("n", "n"), layout="c"),
}
rule("linalg_lu_solve", args={**LU, "B": T("n m", "same"), "left": C((True,))}, wild_values=False)
rule("lu_solve", args={**LU, "self": T("n m")}, wild_values=False)
rule("lu_unpack", args={**LU, "LU_data": T("n n", "main")}, wild_values=False)
rule(
    "linalg_ldl_solve",
    args={"LD": T("n n", "main", "square"), "pivots": T("n", "int32", ("n", "n")), "B": T("n m", "same")},
    wild_values=False,
)
rule(
    "linalg_matrix_norm",
    args={
        "self": T("* n m"),
        "ord": N((1, -1, 2, -2, float("inf"), float("-inf"))),
        "dim": C(([-2, -1], [-1, -2])),
        "dtype": C((None,)),
    },
)
rule(
    "linalg_matrix_norm.str_ord linalg_norm.ord_str",
    args={"self": T("* n m"), "ord": C(("fro", "nuc")), "dim": C(([-2, -1],)), "dtype": C((None,))},
)
rule("linalg_matrix_norm.str_ord linalg_norm.ord_str", always=frozenset(["dim"]))
rule("nuclear_norm", args={"self": T("n m"), "dim": C(([0, 1], [-1, -2]))})
TOL = {k: T("", "real", "unit") for k in ("tol", "rcond", "atol", "rtol")}
rule("linalg_matrix_rank.*tensor* linalg_pinv.*tensor*", args=TOL)
rule("linalg_pinv", args={"self": T("* n m")})
rule(
    "linalg_pinv linalg_matrix_rank linalg_pinv.atol_rtol_float linalg_matrix_rank.atol_rtol_float",
    args={"hermitian": C((False,))},
)
rule("linalg_tensorinv", args={"self": T("2 3 6", "main", "distinct"), "ind": C((2,))})
rule("linalg_tensorsolve", args={"self": T("2 3 6", "main", "distinct"), "other": T("2 3", "same"), "dims": C((None,))})
rule(
    "linalg_ldl_factor* linalg_lu_factor* linalg_lu",
    args={"self": T("* n n", "main", "square"), "A": T("* n n", "main", "square")},
)
rule("linalg_vander", args={"x": T("* m"), "N": C((None, 2, 4))})
rule("linalg_vecdot", args={"x": T("any"), "y": T("bcast", "same")})
rule(
    "_cdist_backward",
    args={
        "grad": T("n m"),
        "x1": T("n k", "same"),
        "x2": T("m k", "same"),
        "p": C((2.0, 1.0)),
        "cdist": T("n m", "same", "positive"),
    },
    dtypes="wide",
)
rule(
    "_pdist_backward",
    args={
        "grad": T("n*(n-1)//2"),
        "self": T("n k", "same"),
        "p": C((2.0, 1.0)),
        "pdist": T("n*(n-1)//2", "same", "positive"),
    },
    dtypes="wide",
)
rule(
    "_trilinear",
    args={
        "i1": T("n k"),
        "i2": T("n k", "same"),
        "i3": T("n k", "same"),
        "expand1": C(([],)),
        "expand2": C(([],)),
        "expand3": C(([],)),
        "sumdim": C(([0], [1], [])),
        "unroll_dim": C((0, 1)),
    },
    dtypes="wide",
)

# ---------------------------------------------------------------- Fourier transforms

NORMS = C((None, "forward", "backward", "ortho"))
_FFT = {"self": T("n m c"), "n": C((None, 1, 3, 4)), "s": C((None,)), "norm": NORMS, "dim": C((-1, 0, 1))}
rule("fft_*", args=_FFT, dtypes="lapack", values="tame", sizes={"m": (2, 4), "c": (2, 5)})
rule("fft_rfft* fft_ihfft*", dtypes="wide")
rule("fft_*fft2", args={"dim": C(([-2, -1], [0, 1])), "s": C((None, [3, 4]))})
rule("fft_*fftn fft_fftshift fft_ifftshift", args={"dim": C((None, [0], [1, 2], [-1]))})
rule("fft_fftfreq fft_rfftfreq", args={"n": I(1, 6), "d": C((1.0, 0.5))}, dtypes="wide")
rule(
    "_fft_c2c",
    args={"self": T("n m"), "dim": C(([0], [1], [0, 1])), "normalization": I(0, 2)},
    dtypes="complex",
    values="tame",
)
rule(
    "_fft_c2r",
    args={"self": T("n m"), "dim": C(([1], [0, 1])), "normalization": I(0, 2), "last_dim_size": I("2*m-2", "2*m-1")},
    dtypes="complex",
    values="tame",
    sizes={"m": (2, 4)},
)
rule(
    "_fft_r2c",
    args={"self": T("n m"), "dim": C(([1], [0, 1])), "normalization": I(0, 2)},
    dtypes="wide",
    values="tame",
    sizes={"m": (1, 4)},
)
rule("stft istft", args={"self": T("16"), "n_fft": C((4,))}, dtypes="wide")

# ---------------------------------------------------------------- resampling and padding

for _n, _space in ((1, "h"), (2, "h w"), (3, "d h w")):
    _names = f"upsample_*{_n}d _upsample_*{_n}d upsample_*{_n}d_aa _upsample_*{_n}d_aa"
    _small = {"h": (1, 4), "w": (1, 4), "d": (1, 3)}
    rule(
        _names,
        args={"self": T(f"n c {_space}"), "input": T(f"n c {_space}"), "output_size": L(_n, 1, 5)},
        dtypes="float",
        mixed=0,
        sizes=_small,
    )
    _vec = " ".join(f"{name}.vec" for name in _names.split())
    rule(_vec, args={"scale_factors": C((None,)), "output_size": L(_n, 1, 5, always=True)})
    _back = " ".join(f"{name}_backward" for name in _names.split())
    _out = {1: "3", 2: "3 4", 3: "2 3 4"}[_n]
    rule(
        _back,
        args={
            "grad_output": T(f"n c {_out}"),
            "output_size": C(([int(x) for x in _out.split()],)),
            "input_size": sizes(f"n c {_space}"),
        },
        dtypes="float",
        sizes=_small,
    )
    _padded = {1: "h+2", 2: "h+2 w+2", 3: "d+2 h+2 w+2"}[_n]
    rule(f"reflection_pad{_n}d_backward replication_pad{_n}d_backward", args={"grad_output": T(f"n c {_padded}"), "self": T(f"n c {_space}", "same"),
         "padding": C(([1] * (2 * _n),))}, dtypes="float", sizes={"h": (2, 5), "w": (2, 5), "d": (2, 3)})  # fmt: skip
rule(
    "_pad_enum",
    args={"self": T("n c h"), "pad": L(2, 0, 1), "mode": I(0, 3), "value": C((None, 1.5))},
    dtypes="float",
    sizes={"h": (3, 5)},
)
rule(
    "affine_grid_generator",
    args={"theta": T("n 2 3"), "size": sizes("n c h w")},
    dtypes="wide",
    sizes={"h": (1, 3), "w": (1, 3)},
)
rule(
    "affine_grid_generator_backward",
    args={"grad": T("n h w 2"), "size": sizes("n c h w")},
    dtypes="wide",
    sizes={"h": (1, 3), "w": (1, 3)},
)
GRID = {"input": T("n c h w"), "grid": T("n 2 3 2", "same"), "interpolation_mode": I(0, 2), "padding_mode": I(0, 2)}
rule("_grid_sampler_2d_cpu_fallback grid_sampler_2d", args=GRID, dtypes="wide", values="tame", wild=0)
rule(
    "grid_sampler_2d_backward _grid_sampler_2d_cpu_fallback_backward",
    args={**GRID, "grad_output": T("n c 2 3"), "input": T("n c h w", "same")},
    dtypes="wide",
    values="tame",
    wild=0,
)
rule(
    "grid_sampler_3d",
    args={
        "input": T("n c d h w"),
        "grid": T("n 2 3 1 3", "same"),
        "interpolation_mode": I(0, 1),
        "padding_mode": I(0, 2),
    },
    dtypes="wide",
    values="tame",
    wild=0,
)
rule(
    "grid_sampler_3d_backward",
    args={
        "grad_output": T("n c 2 3 1", layout="c"),
        "input": T("n c d h w", "same"),
        "grid": T("n 2 3 1 3", "same"),
        "interpolation_mode": I(0, 1),
        "padding_mode": I(0, 2),
    },
    dtypes="wide",
    values="tame",
    wild=0,
)
rule(
    "col2im",
    args={
        "self": T("n c*4 6"),
        "output_size": C(([3, 4],)),
        "kernel_size": C(([2, 2],)),
        "dilation": C(([1, 1],)),
        "padding": C(([0, 0],)),
        "stride": C(([1, 1],)),
    },
    dtypes="float",
)

# ---------------------------------------------------------------- attention and recurrence

QKV = {"query": T("n g h 4"), "key": T("n g w 4", "same"), "value": T("n g w 4", "same"), "dropout_p": C((0.0,)), "dropout_mask": C((None,)), "scale": C((None, 0.5)),
       "enable_gqa": C((False,)), "attn_mask": T("h w", "same"), "is_causal": C((False,))}  # fmt: skip
rule(
    "scaled_dot_product_attention _scaled_dot_product_attention_math _scaled_dot_product_flash_attention_for_cpu",
    args=QKV,
    dtypes="halffloat",
    mixed=0,
    values="tame",
    sizes={"h": (1, 4), "w": (1, 4)},
    wild=6,
)
rule(
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    args={
        **QKV,
        "grad_out": T("n g h 4"),
        "query": T("n g h 4", "same"),
        "out": T("n g h 4", "same"),
        "logsumexp": T("n g h", "float32"),
    },
    dtypes="wide",
    values="tame",
    sizes={"h": (1, 4), "w": (1, 4)},
    wild=0,
)
rule(
    "_transform_bias_rescale_qkv",
    args={"qkv": T("n h 12"), "qkv_bias": T("12", "same"), "num_heads": C((1, 2, 4))},
    dtypes="wide",
    sizes={"h": (1, 3)},
)
CELL = {
    "input": T("n k"),
    "hx": T("n h", "same"),
    "w_ih": T("g*h k", "same"),
    "w_hh": T("g*h h", "same"),
    "b_ih": T("g*h", "same", always=True),
    "b_hh": T("g*h", "same", always=True),
}
for _gates, _name in ((1, "rnn_relu"), (1, "rnn_tanh"), (3, "gru"), (4, "lstm")):
    _s = {"g": (_gates, _gates), "h": (1, 3), "k": (1, 3)}
    _both = {
        "always": frozenset(["b_ih", "b_hh"]),
        "dtypes": "wide",
        "mixed": 0,
        "values": "tame",
        "sizes": _s,
        "wild": 6,
    }
    rule(f"{_name}_cell", args=CELL | ({"hx": Ts("n h", "same", count=2)} if _name == "lstm" else {}), **_both)
    _params = lambda c: [
        c.array(T(t, "same")) for t in (["g*h k", "g*h h", "g*h", "g*h"] if c.held_bias() else ["g*h k", "g*h h"])
    ]
    _layer = {"input": T("d n k"), "hx": T("1 n h", "same"), "params": _params, "has_biases": lambda c: c.held_bias(), "num_layers": C((1,)), "dropout": C((0.0,)), "train": C((False,)),
              "bidirectional": C((False,)), "batch_first": C((False,)), "data": T("4 k"), "batch_sizes": C(())}  # fmt: skip
    _layer["batch_sizes"] = lambda c: c.array(T("2", "int64", (2, 2)))
    rule(f"{_name}.input", args=_layer | ({"hx": Ts("1 n h", "same", count=2)} if _name == "lstm" else {}), **_both)
    rule(
        f"{_name}.data",
        args=_layer | {"hx": Ts("1 2 h", "same", count=2) if _name == "lstm" else T("1 2 h", "same")},
        **{**_both, "wild": 0},
    )
rule(
    "_pack_padded_sequence",
    args={"input": T("3 2 k"), "lengths": lambda c: c.array(T("2", "int64", (3, 3))), "batch_first": C((False,))},
    wild=0,
)
rule(
    "_pad_packed_sequence",
    args={
        "data": T("6 k"),
        "batch_sizes": T("3", "int64", (2, 2)),
        "batch_first": C((False, True)),
        "padding_value": N((0, 1.5)),
        "total_length": C((-1, 4)),
    },
    wild=0,
)
rule(
    "_pack_padded_sequence_backward",
    args={
        "grad": T("6 k"),
        "input_size": sizes("3 2 k"),
        "batch_sizes": T("3", "int64", (2, 2)),
        "batch_first": C((False,)),
    },
    wild=0,
)

# ---------------------------------------------------------------- more losses, and optimisers

MARGIN = {
    "self": T("n c"),
    "target": T("n", "int64", (0, "c-1")),
    "p": N((1, 2)),
    "margin": N((1, 0.5)),
    "weight": T("c", "same"),
}
rule("multi_margin_loss", args=MARGIN, dtypes="wide")
rule(
    "multi_margin_loss_backward",
    args={**MARGIN, "grad_output": T(""), "self": T("n c", "same"), "reduction": I(1, 2)},
    dtypes="wide",
)
rule(
    "multilabel_margin_loss multilabel_margin_loss_forward",
    args={"self": T("n c"), "target": T("n c", "int64", (-1, "c-1"))},
    dtypes="wide",
    wild_values=False,
)
rule(
    "multilabel_margin_loss_backward",
    args={
        "grad_output": T(""),
        "self": T("n c", "same"),
        "target": T("n c", "int64", (-1, "c-1")),
        "is_target": T("n c", "same", "unit"),
        "reduction": I(1, 2),
    },
    dtypes="wide",
    wild_values=False,
)
_LISTS = {
    k: Ts("3 2", "same", "positive", count=2)
    for k in ("self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "state_sums", "momentum_buffer_list")
}
rule("_fused_*", args={**_LISTS, "state_steps": Ts("", "float32", "positive", count=2), "lr": C((0.1, 0.01)), "lr_decay": C((0.0, 0.1)), "weight_decay": C((0.0, 0.1)), "eps": C((1e-8,)),
     "beta1": C((0.9,)), "beta2": C((0.99,)), "grad_scale": C((None,)), "found_inf": C((None,)), "momentum": C((0.0, 0.9)), "dampening": C((0.0,))}, dtypes="wide", mixed=0, wild=0)  # fmt: skip
rule("_fused_rms_norm", args={"eps": C((None, 1e-5))})
rule("_fused_*.tensor_lr", args={"lr": T("", "float32", "positive")})
rule(
    "_amp_foreach_non_finite_check_and_unscale",
    args={"found_inf": T("1", "float32", "unit"), "inv_scale": T("1", "float32", "positive")},
    dtypes="float",
)
rule(
    "_amp_update_scale",
    args={
        "self": T("1", "float32", "positive"),
        "growth_tracker": T("1", "int32", (0, 3)),
        "found_inf": T("1", "float32", "unit"),
        "growth_interval": I(1, 3),
    },
    dtypes="wide",
    wild=0,
)
rule(
    "_rowwise_prune",
    args={"weight": T("n m"), "mask": T("n", "bool"), "compressed_indices_dtype": lambda c: c.named("int64")},
    dtypes="float",
)
rule(
    "*max_pool?d*_backward native_batch_norm_backward batch_norm_backward _native_batch_norm_legit.no_stats",
    wild_values=False,
    wild=0,
)
rule("native_batch_norm_backward batch_norm_backward", args={"train": C((True,)), "update": C((True,)), "save_mean": T("c", "same", "tame", always=True), "running_mean": C((None,)), "running_var": C((None,)),
     "save_invstd": T("c", "same", "positive", always=True), "save_var": T("c", "same", "positive", always=True), "weight": T("c", "same", always=True)})  # fmt: skip
rule("_native_batch_norm_legit.no_stats", args={"training": C((True,))})
rule("bilinear", sizes={"k": (1, 3), "m": (1, 3)})
