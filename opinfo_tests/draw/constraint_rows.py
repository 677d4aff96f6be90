"""The constraint rows of elementwise operators, reductions, shapes, indexing and creation; `constraints` says how they are read."""

from __future__ import annotations

from .constraints import (
    C,
    I,
    L,
    N,
    T,
    Ts,
    any_dtype,
    dims,
    expanded,
    flat_strides,
    index_list,
    index_of_dim,
    permutation,
    regroup,
    rolled_dims,
    row_major,
    rule,
    same_shape,
    size_of_dim,
    sizes,
    small_sizes,
    split_sizes,
)

# ---------------------------------------------------------------- families

FLOAT = {"dtypes": "float", "mixed": 3}
rule("family:activation family:backward.activation family:special family:softmax", **FLOAT)
rule("family:norm family:batchnorm family:backward.norm family:vectornorm", **FLOAT)
rule("family:loss family:nll family:backward.loss family:pool family:pool_adaptive family:backward.pool", **FLOAT)
rule("family:dropout family:sampling family:random", dtypes="float", mixed=3, values="tame")
rule("family:bitwise", dtypes="bits", mixed=30)
rule("family:conv family:backward.conv", dtypes="float", mixed=0, wild=15)
rule("gcd lcm", dtypes="int")
rule("_foreach_*", mixed=5)
rule("complex polar", dtypes="wide", mixed=2)
rule("view_as_complex", dtypes="wide", args={"self": T("n m 2", layout="c")}, sizes={"n": (1, 4), "m": (1, 4)})
rule("view_as_real", dtypes="complex")
rule("angle real", dtypes="inexact")
rule("imag _conj", dtypes="complex")
rule("_neg_view", dtypes="inexact", wild=0)
rule("_is_all_true _is_any_true", args={"self": T("any", "bool")})

# ---------------------------------------------------------------- elementwise

UNIT = {"prob": T("bcast", "same", "unit"), "p": C((0.5, 0.0, 1.0, 0.25))}
rule(
    "ge gt le lt greater greater_equal less less_equal maximum minimum max min fmax fmin fmod remainder floor_divide atan2 arctan2 copysign "
    "clamp clamp_max clamp_min clip heaviside sort argsort topk amax amin aminmax argmax argmin ceil floor round trunc",
    dtypes="ordered",
)
rule("addcdiv _foreach_addcdiv*", dtypes="inexact")
rule("logaddexp logaddexp2 hypot nextafter atan2 arctan2 frac", dtypes="float")
rule("lerp", dtypes="inexact", args={"end": T("bcast", "same"), "weight": T("bcast", "same")})
rule("lerp.Scalar", args={"weight": N((0.5, 0.0, 1.0, 2, 0.3))})
rule("_foreach_lerp.Scalar", args={"weight": N((0.5, 0.0, 1.0, 2)), "tensors1": Ts("like", count="len(self)")})
rule(
    "_foreach_lerp.ScalarList",
    args={"weight": lambda c: [0.5] * c.list_length(), "tensors1": Ts("like", count="len(self)")},
)
rule("_foreach_lerp.List", args={"weights": Ts("like", count="len(self)"), "tensors1": Ts("like", count="len(self)")})
rule("pow.Scalar", values="any")
rule("threshold hardtanh elu celu leaky_relu softplus hardshrink softshrink", args={
    "lambd": N((0.5, 0, 1, 0.25)), "alpha": N((1, 0.5, 2)), "beta": N((1, 0.5, 2)), "negative_slope": N((0.01, 0.5, 0))})  # fmt: skip
rule("glu glu_backward", sizes={"*": (2, 2)}, args={"self": T("2*n 2*m 2*c", "main"), "dim": I(-3, 2)})
rule("glu_backward", args={"grad_output": T("2*n 2*m c", "same"), "dim": C((-1, 2))})
rule("prelu", args={"self": T("n c m?"), "weight": T("c", "same")})
rule("_prelu_kernel _prelu_kernel_backward", args={"weight": T("bcast", "same")})
rule("polygamma", args={"n": I(0, 4)})
rule("mvlgamma special_multigammaln", values="positive", args={"p": I(1, 2)})
rule("special_*polynomial*", args={"n": T("bcast", "real", (-1, 6))}, dtypes="float", mixed=3)
rule("special_*polynomial*.n_scalar", args={"n": N((0, 1, 2, 3, 5))})
rule("nextafter", mixed=5, dtypes="float")
rule("ldexp heaviside hypot", mixed=8)
rule("fill.Tensor", args={"value": T("")})
rule("clamp clip clamp.Tensor clip.Tensor", always=frozenset(["min"]))
rule("where.self", args={"condition": T("any", "bool"), "self": T("bcast"), "other": T("bcast")})
rule("where where.Scalar* masked_fill* masked_select", args={"condition": T("any", "bool"), "mask": T("bcast", "bool")})
rule("where.ScalarOther where.ScalarSelf", args={"condition": T("any", "bool")})
rule("dist", args={"other": T("bcast", "same")})
rule("_foreach_*.List _foreach_copy", args={"other": Ts("like", count="len(self)"), "src": Ts("like", count="len(self)"),
     "exponent": Ts("like", count="len(self)"), "tensors1": Ts("like", count="len(self)")})  # fmt: skip
rule("_foreach_*.Tensor", args={"other": T("")})
rule("_foreach_addc*", args={"tensor1": Ts("like", count="len(self)"), "tensor2": Ts("like", count="len(self)")})
rule("_foreach_addc*.Tensor", args={"scalars": T("len(self)", "float32"), "self": Ts("any", count=2)})
rule("_foreach_*", args={"self": Ts("like")})
rule("_foreach_pow.ScalarAndTensor", args={"self": N(), "exponent": Ts("any")})
rule("_foreach_mm", args={"self": Ts("n k", count=2), "mat2": Ts("k m", "same", count=2)}, dtypes="float")

# ---------------------------------------------------------------- reductions, scans, sorting

rule("*norm*", args={"p": N((2, 1, 0, 3, 0.5, float("inf"))), "ord": N((2, 1, 0, 3, 0.5, float("inf"), float("-inf")))})
rule("renorm", args={"self": T("n m c"), "p": N((2, 1, 0.5)), "maxnorm": N((1, 0.5, 2))})
rule("norm_except_dim", args={"v": T("n m c"), "pow": I(1, 3), "dim": I(-1, 2)})
rule("topk", args={"k": lambda call: call.integer(0, size_of_dim(call))})
rule("kthvalue", args={"k": lambda call: call.integer(1, max(1, size_of_dim(call)))})
rule("mode median.dim nanmedian.dim kthvalue topk sort argsort", mixed=0)
rule("bincount", args={"self": T("n", "int", (0, 5)), "weights": T("n")})
rule("histc", dtypes="float", args={"bins": I(1, 5)})
rule("bucketize.Tensor", args={"boundaries": T("m", "same", "distinct")})
rule("bucketize.Scalar", args={"boundaries": T("m", "main", "distinct")})
rule("searchsorted.Tensor", args={"sorted_sequence": T("m", "main", "distinct"), "self": T("any", "same")})
rule("searchsorted.Scalar", args={"sorted_sequence": T("m", "main", "distinct")})
rule("var* std* mean* nanmean logsumexp softmax* log_softmax* _softmax _log_softmax cumprod", dtypes="inexact")
rule("_softmax _log_softmax", args={"half_to_float": C((False,)), "dim": lambda c: c.dim()}, dtypes="float")
rule("_softmax_backward_data _log_softmax_backward_data", args={
    "grad_output": T("any"), "output": T("like", "same"), "input_dtype": lambda c: c.named(c.held["grad_output"].dtype)})  # fmt: skip
rule(
    "trapezoid* cumulative_trapezoid* trapz*",
    args={"y": T("n m"), "x": T("~n m", "same"), "dim": C((-1, 1))},
    dtypes="inexact",
)
rule("diff", args={"n": I(0, 2)})
rule("quantile nanquantile", dtypes="wide", args={"q": T("m?", "same", "unit")})
rule("quantile.scalar nanquantile.scalar", args={"q": C((0.5, 0.0, 1.0, 0.3))})
rule("cov corrcoef", dtypes="inexact", args={"self": T("n? m"), "correction": I(0, 1)})

# ---------------------------------------------------------------- shape and views

rule("view reshape _reshape_copy _unsafe_view view_copy", args={"size": regroup, "shape": regroup})
rule("_reshape_alias _reshape_alias_copy", args={"self": T("any", layout="c"), "size": same_shape, "stride": row_major})
rule("view.dtype view_copy.dtype", args={"self": T("any"), "dtype": any_dtype})
rule("view_as reshape_as", args={"other": T("like")})
rule("expand expand_copy broadcast_to", args={"size": expanded, "implicit": C((False,))})
rule("expand_as", args={"self": T("~n ~m"), "other": T("n m")})
rule("permute permute_copy", args={"dims": lambda c: c.dims(len(c.shape or ())) if c.shape else []})
rule("unsqueeze unsqueeze_copy", args={"dim": lambda c: c.integer(-len(c.shape) - 1, len(c.shape))})
rule("squeeze.dims squeeze_copy.dims", args={"dim": dims()})
rule("movedim.intlist moveaxis.intlist", args={"source": lambda c: c.dims(), "destination": lambda c: c.dims(len(c.held["source"]), len(c.held["source"]))})  # fmt: skip
rule("movedim.int moveaxis.int", args={"source": lambda c: c.dim(), "destination": lambda c: c.dim()})
rule("t t_copy numpy_T", args={"self": T("n? m?")})
rule("mT mH matrix_H adjoint", args={"self": T("* n m")})
rule("matrix_H", args={"self": T("n m")})
rule("diagonal diagonal_copy diag_embed", args={"self": T("n m c?"), "dim1": I(-2, 0), "dim2": C((1, -1))})
rule("linalg_diagonal", args={"A": T("* n m"), "dim1": C((-2,)), "dim2": C((-1,))})
rule("as_strided as_strided_copy", args={"self": T("4 5"), "size": lambda c: [c.integer(0, 2) for _ in range(c.integer(0, 2))],
     "stride": flat_strides, "storage_offset": C((None, 0, 1, 3))}, wild=8)  # fmt: skip
rule(
    "unflatten.int", args={"self": T("n 6 c?"), "dim": C((1,)), "sizes": C(([2, 3], [3, -1], [6], [-1, 2, 1], [4, 2]))}
)
rule("flatten.using_ints", args={"start_dim": I(0, "max(ndim-1,0)"), "end_dim": C((-1,))})
rule("unfold unfold_copy", args={"size": lambda c: c.integer(0, size_of_dim(c)), "step": I(1, 3)})
rule("narrow narrow_copy narrow.Tensor", args={"start": lambda c: c.integer(0, size_of_dim(c)),
     "length": lambda c: c.integer(0, max(0, size_of_dim(c) - (c.held["start"] if isinstance(c.held["start"], int) else 0)))})  # fmt: skip
rule("narrow.Tensor", args={"start": T("", "int64", (0, 1)), "length": I(0, 1)})
rule("select.int select_copy.int", args={"index": index_of_dim}, sizes={"*": (1, 4)})
rule("slice.Tensor slice_copy.Tensor", sizes={"*": (0, 4)})
rule("split.sizes split_with_sizes split_with_sizes_copy unsafe_split_with_sizes", args={"split_size": split_sizes, "split_sizes": split_sizes},
     always=frozenset(["dim"]))  # fmt: skip
rule("split_with_sizes split.sizes unsafe_split_with_sizes split_with_sizes_copy", args={
    "self": T("n m c?"), "split_sizes": lambda c: split_sizes(c), "split_size": lambda c: split_sizes(c), "dim": C((0,))})  # fmt: skip
rule("split.Tensor split_copy.Tensor unsafe_split.Tensor", args={"split_size": I(1, 4)})
rule(
    "tensor_split.indices hsplit.array vsplit.array dsplit.array",
    args={"indices": L("1", -1, 4), "self": T("n m c h?")},
)
rule(
    "tensor_split.tensor_indices_or_sections",
    args={"tensor_indices_or_sections": T("k?", "int64", (1, 4)), "self": T("n m c?")},
)
rule("hsplit.int vsplit.int dsplit.int", args={"self": T("2*n 2*m 2*c h?"), "sections": C((1, 2, 3))})
rule("unbind* chunk unsafe_chunk split.Tensor tensor_split.sections", args={"self": T("n m? c?")})
rule("flip", args={"dims": dims()})
rule("fliplr flipud", args={"self": T("n m c?")})
rule("roll", args={"shifts": L("max(1,min(2,ndim))", -3, 4), "dims": rolled_dims}, always=frozenset(["dims"]))
rule("rot90", args={"self": T("n m c?"), "k": I(-3, 5), "dims": C(([0, 1], [1, 0], [-1, 0]))})
rule(
    "repeat tile",
    args={
        "repeats": lambda c: [c.integer(0, 2) for _ in range(len(c.shape) + c.integer(0, 1))],
        "dims": lambda c: [c.integer(0, 2) for _ in range(c.integer(0, 4))],
    },
    most_dims=3,
)
rule("repeat_interleave.self_int", args={"repeats": I(0, 3), "output_size": C((None,))}, most_dims=3)
rule("repeat_interleave.self_Tensor", args={"repeats": T("1", "index", (0, 2)), "output_size": C((None,))}, most_dims=3)
rule("repeat_interleave.Tensor", args={"repeats": T("m", "index", (0, 2)), "output_size": C((None,))})
rule("pixel_shuffle", args={"self": T("* 4*c h w"), "upscale_factor": C((2, 1))}, sizes={"h": (1, 3), "w": (1, 3)})
rule(
    "pixel_unshuffle", args={"self": T("* c 2*h 2*w"), "downscale_factor": C((2, 1))}, sizes={"h": (1, 3), "w": (1, 3)}
)
rule("channel_shuffle native_channel_shuffle", args={"self": T("n g*c h w?"), "groups": I("g", "g")})
rule("tril triu", args={"self": T("* n m")})
rule("diag", args={"self": T("n m?")})
rule("one_hot", args={"self": T("any", "int64", (0, 3)), "num_classes": C((-1, 4, 6))})
rule("tril_indices triu_indices", args={"row": I(0, 4), "col": I(0, 4)})
rule("is_nonzero item _local_scalar_dense", args={"self": T("")})
rule("size.int stride.int sym_size.int sym_stride.int", args={"dim": lambda c: c.dim()})

# ---------------------------------------------------------------- joining

JOIN = {"tensors": Ts("like"), "sequences": Ts("like")}
rule("cat concat concatenate stack hstack vstack dstack column_stack row_stack _stack block_diag meshgrid* "
     "broadcast_tensors atleast_*.Sequence flatten_dense_tensors pad_sequence", args=JOIN, mixed=25)  # fmt: skip
rule("block_diag", args={"tensors": Ts("n? m?")})
rule("cartesian_prod", args={"tensors": Ts("m", "same")}, most_dims=1)
rule("combinations", args={"self": T("m"), "r": I(0, 3)})
rule("meshgrid*", args={"tensors": Ts("m?", "same")})
rule("pad_sequence", args={"sequences": Ts("like", "same")}, wild=8)
rule("_chunk_cat", args={"tensors": Ts("n m", "same"), "dim": C((0, 1)), "num_chunks": I(1, 3)})
rule("flatten_dense_tensors", args={"tensors": Ts("any", "same")})
rule("unflatten_dense_tensors", args={"tensors": Ts("n m", "same", count=2), "flat": T("n*m*2", "same")})

# ---------------------------------------------------------------- indexing

INDEX = {"self": T("n m c?"), "dim": C((0, 1, -1))}
rule("index_select", args={**INDEX, "index": T("k", "index", (0, "shape[dim]-1"))})
rule(
    "gather",
    args={"self": T("n m"), "dim": C((0, 1, -1)), "index": T("n-1 m-1", "int64", (0, "shape[dim]-1"))},
    sizes={"n": (2, 4), "m": (2, 4)},
)
rule("take", args={"self": T("n m"), "index": T("k?", "int64", ("-numel", "numel-1"))})
rule("take_along_dim", args={"self": T("n m"), "indices": T("n m", "int64", (0, "min(n,m)-1")), "dim": C((0, 1, -1))})
rule("scatter* scatter_add scatter_reduce", args={"self": T("n m"), "dim": C((0, 1, -1)), "index": T("n m", "int64", (0, "shape[dim]-1")),
     "src": T("n m", "same"), "reduce": C(("sum", "prod", "mean", "amax", "amin"))})  # fmt: skip
rule("scatter.reduce scatter.value_reduce", args={"reduce": C(("add", "multiply"))})
rule("select_scatter slice_scatter diagonal_scatter as_strided_scatter", args={"self": T("n m")})
rule("index_add index_copy index_reduce", args={"self": T("n m"), "dim": C((0,)), "index": T("k", "index", (0, "n-1")), "source": T("k m", "same"),
     "reduce": C(("prod", "mean", "amax", "amin"))})  # fmt: skip
rule("index_fill*", args={**INDEX, "index": T("k", "int64", (0, "shape[dim]-1")), "value": N()})
rule("index_fill.int_Tensor", args={"value": T("")})
rule("index.Tensor _unsafe_index.Tensor", args={"self": T("n m"), "indices": index_list})
rule("index_put _unsafe_index_put", args={"self": T("n m"), "indices": index_list, "values": T("", "same")})
rule("masked_scatter", args={"mask": T("like", "bool"), "source": T("like", "same")})
rule("put", args={"self": T("n m"), "index": T("k", "int64", ("-numel", "numel-1")), "source": T("k", "same")})
rule("embedding", args={"weight": T("n m", "float"), "indices": T("k?", "index", (0, "n-1"))}, dtypes="float")
rule(
    "embedding_dense_backward",
    args={
        "grad_output": T("k m", "float"),
        "indices": T("k", "int64", (0, 3)),
        "num_weights": C((4,)),
        "padding_idx": C((-1, 0)),
    },
    dtypes="float",
)
rule("select_backward slice_backward diagonal_backward", dtypes="float")

# ---------------------------------------------------------------- creation

LIMITS = {"start": N((0, 1, -2, 0.5, 2)), "end": N((5, 3.5, 4, 10)), "step": N((1, 0.5, 2, 3))}
rule("arange* range* linspace* logspace*", args=LIMITS)
rule("linspace.Tensor* logspace.Tensor* linspace.Scalar_Tensor logspace.Scalar_Tensor", args={
    "start": T("", "real", "tame"), "end": T("", "real", "tame")})  # fmt: skip
rule("linspace.Tensor_Scalar logspace.Tensor_Scalar", args={"end": LIMITS["end"]})
rule("linspace.Scalar_Tensor logspace.Scalar_Tensor", args={"start": LIMITS["start"]})
rule("eye*", args={"n": I(0, 4), "m": I(0, 4)})
rule("empty_strided new_empty_strided", args={"size": small_sizes, "stride": flat_strides})
rule("empty_permuted", args={"size": small_sizes, "shape": small_sizes, "physical_layout": permutation})
rule("resize resize_as", args={"size": small_sizes, "the_template": T("any")})
rule("randint*", args={"low": I(-3, 2), "high": I(3, 9)}, dtypes="real")
rule("randint_like.Tensor randint_like.Tensor_generator", args={"high": T("", "int64", (3, 9))})
rule("random.from random.to", args={"from": I(-3, 2), "to": I(3, 9)})
rule("randperm*", args={"n": I(0, 7)})
rule("_dim_arange", args={"like": T("n m"), "dim": I(0, 1)})
rule("to.dtype_layout to.device to.dtype to.other _to_copy", dtypes="every", args={"other": T("any", "any")})
rule(
    "normal.* normal",
    dtypes="float",
    args={"mean": T("any", "main", "tame"), "std": T("like", "same", "positive")},
    wild=8,
)
rule("normal.float_Tensor normal.float_float", args={"mean": C((0.0, 1.0, -2.5))})
rule("normal.Tensor_float normal.float_float", args={"std": C((1.0, 0.5, 0.0))})
rule("normal_functional", args={"mean": C((0.0, 1.0)), "std": C((1.0, 0.5))})
rule("uniform", args={"from": C((0.0, -1.0)), "to": C((1.0, 2.0))})
rule("bernoulli bernoulli.Tensor", args={"self": T("any", "main", "unit"), "p": T("like", "float", "unit")}, wild=5)
rule("bernoulli.p", args=UNIT)
rule(
    "dropout native_dropout alpha_dropout feature_dropout feature_alpha_dropout",
    args={"p": C((0.5, 0.0, 1.0, 0.25)), "input": T("n m c?")},
)
rule("rrelu*", args={"lower": N((0.125, 0.1, 0)), "upper": N((0.3, 0.5, 1))})
rule("binomial", args={"count": T("any", "main", "positive"), "prob": T("like", "same", "unit")})
rule("poisson", args={"self": T("any", "main", "positive")})
rule("multinomial", args={"self": T("n? 4", "float", "positive"), "num_samples": I(1, 4)})
rule("geometric", args={"p": C((0.5, 0.25, 1.0, 0.1))})
rule("exponential log_normal cauchy", args={"lambd": C((1.0, 0.5)), "std": C((1.0, 0.5)), "sigma": C((1.0, 2.0))})
rule("normal uniform", args={"shape": small_sizes})

# ---------------------------------------------------------------- gradients of views and indexing

ROWS_OF = {"grad": T("n m"), "grad_output": T("n m")}
rule(
    "select_backward",
    args={"grad_output": T("m"), "input_sizes": sizes("n m"), "dim": C((0, -2)), "index": I("-n", "n-1")},
)
rule(
    "slice_backward",
    args={
        "grad_output": T("n m"),
        "input_sizes": sizes("n+2 m"),
        "dim": C((0,)),
        "start": C((1,)),
        "end": I("n+1", "n+1"),
        "step": C((1,)),
    },
)
rule(
    "diagonal_backward",
    args={
        "grad_output": T("n"),
        "input_sizes": sizes("n n"),
        "offset": C((0,)),
        "dim1": C((0, -2)),
        "dim2": C((1, -1)),
    },
)
rule("select_scatter", args={"src": T("m", "same"), "dim": C((0, -2)), "index": I("-n", "n-1")}, sizes={"n": (1, 3)})
rule(
    "diagonal_scatter",
    args={"self": T("n n"), "src": T("n", "same"), "offset": C((0,)), "dim1": C((0,)), "dim2": C((1,))},
    sizes={"n": (1, 3)},
)
rule("slice_scatter", args={"self": T("n+2 m"), "src": T("n m", "same"), "dim": C((0,)), "start": C((1,)), "end": I("n+1", "n+1"), "step": C((1,))},
     always=frozenset(["start", "end"]))  # fmt: skip
rule(
    "as_strided_scatter",
    args={
        "self": T("4 5"),
        "src": T("2 3", "same"),
        "size": C(([2, 3],)),
        "stride": C(([5, 1], [1, 2], [3, 1])),
        "storage_offset": C((None, 0, 1)),
    },
    wild=8,
)
rule(
    "unfold_backward",
    args={"grad_in": T("n 2 3"), "input_sizes": sizes("n 4"), "dim": C((1,)), "size": C((3,)), "step": C((1,))},
)
rule("trace_backward", args={"grad": T(""), "sizes": sizes("n m")})
rule(
    "gather_backward",
    args={
        "grad": T("n m"),
        "self": T("n m", "same"),
        "dim": C((0, 1)),
        "index": T("n m", "int64", (0, "shape[dim]-1")),
        "sparse_grad": C((False,)),
    },
    sizes={"m": (1, 4)},
)
rule(
    "index_select_backward",
    args={"grad": T("k m"), "self_sizes": sizes("n m"), "dim": C((0,)), "index": T("k", "int64", (0, "n-1"))},
)
rule(
    "cummaxmin_backward",
    args={
        "grad": T("n m"),
        "input": T("n m", "same"),
        "indices": T("n m", "int64", (0, "shape[dim]-1")),
        "dim": C((0, 1)),
    },
    sizes={"m": (1, 4)},
)
rule("cummaxmin_backward", args={"indices": T("n m", "int64", (0, "min(n,m)-1"))})
rule(
    "value_selecting_reduction_backward",
    args={
        "grad": T("n"),
        "dim": C((1,)),
        "indices": T("n", "int64", (0, "m-1")),
        "sizes": sizes("n m"),
        "keepdim": C((False,)),
    },
    sizes={"m": (1, 4)},
)
rule("masked_scatter_backward", args={"grad_output": T("n m"), "mask": T("n m", "bool"), "sizes": sizes("n*m")})
rule("masked_select_backward", args={"grad": T("n*m"), "input": T("n m", "same"), "mask": T("n m", "bool")})
rule("masked_fill.Tensor", args={"value": T("", "same")})
rule("sum_to_size", args={"self": T("n m c"), "size": C(([1], [1, 1], [1, 1, 1], []))}, wild=20)
rule(
    "embedding_backward",
    args={
        "grad": T("k m", "float"),
        "indices": T("k", "int64", (0, 3)),
        "num_weights": C((4,)),
        "padding_idx": C((-1, 0)),
        "sparse": C((False,)),
    },
    dtypes="float",
    wild_values=False,
)
rule("embedding_dense_backward", wild_values=False)
rule(
    "embedding_renorm",
    args={
        "self": T("n m"),
        "indices": T("k", "int64", (0, "n-1")),
        "max_norm": C((1.0, 0.5)),
        "norm_type": C((2.0, 1.0)),
    },
    dtypes="wide",
)
BAG = {"weight": T("n m"), "indices": T("4", "index", (0, "n-1"), layout="c"), "offsets": lambda c: c.array(T("2", c.held["indices"].dtype, (0, 0), layout="c")), "mode": I(0, 2),
       "sparse": C((False,)), "per_sample_weights": C((None,)), "scale_grad_by_freq": C((False,)), "padding_idx": C((-1, 0))}  # fmt: skip
rule(
    "embedding_bag _embedding_bag _embedding_bag_forward_only",
    args=BAG,
    dtypes="float",
    sizes={"m": (1, 4)},
    wild_values=False,
)
rule("embedding_bag.padding_idx", args={"padding_idx": C((None, 0))}, sizes={"m": (1, 4)})
rule(
    "_unsafe_masked_index",
    args={
        "self": T("n m"),
        "mask": T("k", "bool"),
        "indices": lambda c: [c.array(T("k", "int64", (0, "n-1"))), c.array(T("k", "int64", (0, "m-1")))],
    },
    sizes={"m": (1, 4)},
    wild_values=False,
)
rule(
    "_unsafe_masked_index_put_accumulate",
    args={
        "self": T("n m"),
        "mask": T("k", "bool"),
        "indices": lambda c: [c.array(T("k", "int64", (0, "n-1"))), c.array(T("k", "int64", (0, "m-1")))],
        "values": T("k", "same"),
    },
    sizes={"m": (1, 4)},
    wild_values=False,
)
rule("_index_put_impl", args={"self": T("n m"), "indices": index_list, "values": T("", "same"), "unsafe": C((False,))})
rule("index.Tensor _unsafe_index.Tensor index_put _unsafe_index_put _index_put_impl", sizes={"m": (1, 4)})
rule("_unsafe_index*", wild_values=False)
rule("histogram.bin_ct", args={"bins": I(1, 5), "weight": T("like", "same")}, dtypes="wide", values="tame")
rule(
    "histogram.bins_tensor",
    args={"bins": T("c", "same", "distinct"), "weight": T("like", "same")},
    dtypes="wide",
    values="tame",
)
rule("histogram*", args={"range": C((None, [0.0, 2.0]))})
rule(
    "histogramdd* _histogramdd*",
    args={
        "self": T("n 2"),
        "weight": T("n", "same"),
        "bins": C(([2, 3], [1, 1])),
        "range": C((None, [0.0, 2.0, -1.0, 1.0])),
    },
    dtypes="wide",
    values="tame",
)
rule("histogramdd.int_bins", args={"bins": I(1, 4)})
rule(
    "histogramdd.TensorList_bins _histogramdd_from_bin_tensors",
    args={"bins": Ts("c", "same", "distinct", count=2)},
    sizes={"c": (2, 4)},
)
rule("vander", args={"x": T("m"), "N": C((None, 0, 2, 4))})
rule("prims::normal", args={"mean": N((0.0, 1.0)), "std": N((1.0, 0.5)), "dtype": lambda c: c.named("float32")})
rule(
    "prims::uniform",
    args={
        "low": N((0.0, -1.0)),
        "high": N((1.0, 2.0)),
        "dtype": lambda c: c.named("float32"),
        "shape": lambda c: [2, 3],
        "stride": lambda c: [3, 1],
    },
)
rule(
    "norm.ScalarOpt_dtype norm.ScalarOpt_dim_dtype",
    args={"dtype": lambda c: c.named(c.choose(["float32", "float64"]))},
    dtypes="float",
)
rule("norm.ScalarOpt_dtype norm.ScalarOpt_dim_dtype", dtypes="halffloat")
