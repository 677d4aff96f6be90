"""Constraints of shapes, views, joining, indexing and creation; see `opinfo_tests.generate.constraints.constraint`."""

from __future__ import annotations

from typing import Any

from ...case import Case
from .constraint import (
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
    one_dim,
    permutation,
    regroup,
    repeated_size,
    rolled_dims,
    row_major,
    rule,
    same_shape,
    size_of_dim,
    small_sizes,
    split_sizes,
)


def places(call: Any) -> Any:
    """Generate an array of indices along the call's ``dim``."""
    return call.array(T("k", "index", (0, size_of_dim(call) - 1)))


def slices(call: Any) -> Any:
    """Generate a source in the shape of the first array, except that its size along ``dim`` is the index's length."""
    shape = list(call.shape)
    if -len(shape) <= call.held["dim"] < len(shape):
        shape[call.held["dim"]] = call.size("k")
    return call.array(T(" ".join(map(str, shape)), "same"))


# ---------------------------------------------------------------- shape and views


SHAPE_AND_VIEWS = (
    rule("view reshape _reshape_copy _unsafe_view view_copy", args={"size": regroup, "shape": regroup}),
    rule(
        "_reshape_alias _reshape_alias_copy",
        args={"self": T("any", layout="c"), "size": same_shape, "stride": row_major},
        wild=0,  # torch returns views that reach beyond the memory
    ),
    rule("_has_same_storage_numel", wild=0),
    rule("view.dtype view_copy.dtype", args={"self": T("any"), "dtype": any_dtype}),
    rule("view_as reshape_as", args={"other": T("like")}),
    rule("expand expand_copy broadcast_to", args={"size": expanded}),
    rule("expand_as", args={"self": T("~n ~m"), "other": T("n m")}),
    rule("permute permute_copy", args={"dims": lambda c: c.dims(len(c.shape or ())) if c.shape else []}),
    rule("unsqueeze unsqueeze_copy", args={"dim": lambda c: c.integer(-len(c.shape) - 1, len(c.shape))}),
    rule("squeeze.dims squeeze_copy.dims", args={"dim": dims()}),
    rule(
        "movedim.intlist moveaxis.intlist",
        args={
            "source": lambda c: c.dims(),
            "destination": lambda c: c.dims(len(c.held["source"]), len(c.held["source"])),
        },
    ),
    rule("movedim.int moveaxis.int", args={"source": lambda c: c.dim(), "destination": lambda c: c.dim()}),
    rule("t t_copy numpy_T", args={"self": T("n? m?")}),
    rule("mT mH matrix_H adjoint", args={"self": T("* n m")}),
    rule("matrix_H", args={"self": T("n m")}),
    rule("diagonal diagonal_copy diag_embed", args={"self": T("n m c?"), "dim1": I(-2, 0), "dim2": C((1, -1))}),
    rule("linalg_diagonal", args={"A": T("* n m"), "dim1": C((-2,)), "dim2": C((-1,))}),
    rule(
        "as_strided as_strided_copy",
        args={
            "self": T("4 5"),
            "size": lambda c: [c.integer(0, 2) for _ in range(c.integer(0, 2))],
            "stride": flat_strides,
            "storage_offset": C((None, 0, 1, 3)),
        },
        wild=8,
    ),
    rule(
        "unflatten.int",
        args={"self": T("n 6 c?"), "dim": C((1,)), "sizes": C(([2, 3], [3, -1], [6], [-1, 2, 1], [4, 2]))},
    ),
    rule("flatten.using_ints", args={"start_dim": I(0, "max(ndim-1,0)"), "end_dim": C((-1,))}),
    rule("unfold_backward", unchecked=frozenset(["grad_in", "size", "input_sizes"])),
    rule("unfold unfold_copy", args={"size": lambda c: c.integer(0, size_of_dim(c)), "step": I(1, 3)}),
    rule(
        "narrow narrow_copy narrow.Tensor",
        args={
            "start": lambda c: c.integer(0, size_of_dim(c)),
            "length": lambda c: c.integer(
                0, max(0, size_of_dim(c) - (c.held["start"] if isinstance(c.held["start"], int) else 0))
            ),
        },
    ),
    rule("narrow.Tensor", args={"start": T("", "int64", (0, 1)), "length": I(0, 1)}),
    rule("select.int select_copy.int", args={"index": index_of_dim}, sizes={"*": (1, 4)}),
    rule("slice.Tensor slice_copy.Tensor", sizes={"*": (0, 4)}),
    rule(
        "split.sizes split_with_sizes split_with_sizes_copy unsafe_split_with_sizes",
        args={"split_size": split_sizes, "split_sizes": split_sizes},
        always=frozenset(["dim"]),
    ),
    rule(
        "split_with_sizes split.sizes unsafe_split_with_sizes split_with_sizes_copy",
        args={
            "self": T("n m c?"),
            "split_sizes": lambda c: split_sizes(c),
            "split_size": lambda c: split_sizes(c),
            "dim": C((0,)),
        },
    ),
    rule("split.Tensor split_copy.Tensor unsafe_split.Tensor", args={"split_size": I(1, 4)}),
    rule(
        "tensor_split.indices hsplit.array vsplit.array dsplit.array",
        args={"indices": L("1", -1, 4), "self": T("n m c h?")},
    ),
    rule(
        "tensor_split.tensor_indices_or_sections",
        args={"tensor_indices_or_sections": T("k?", "int64", (1, 4)), "self": T("n m c?")},
    ),
    rule("hsplit.int vsplit.int dsplit.int", args={"self": T("2*n 2*m 2*c h?"), "sections": C((1, 2, 3))}),
    rule("unbind* chunk unsafe_chunk split.Tensor tensor_split.sections", args={"self": T("n m? c?")}),
    rule("flip", args={"dims": dims()}),
    rule("fliplr flipud", args={"self": T("n m c?")}),
    rule("roll", args={"shifts": L("max(1,min(2,ndim))", -3, 4), "dims": rolled_dims}, always=frozenset(["dims"])),
    rule("rot90", args={"self": T("n m c?"), "k": I(-3, 5), "dims": C(([0, 1], [1, 0], [-1, 0]))}),
    rule(
        "repeat tile",
        args={
            "repeats": lambda c: [c.integer(0, 2) for _ in range(len(c.shape) + c.integer(0, 1))],
            "dims": lambda c: [c.integer(0, 2) for _ in range(c.integer(0, 4))],
        },
        most_dims=3,
    ),
    rule("repeat_interleave.self_int", args={"repeats": I(0, 3), "output_size": repeated_size}, most_dims=3),
    rule(
        "repeat_interleave.self_Tensor",
        args={"repeats": T("1", "index", (0, 2)), "output_size": C((None,))},
        most_dims=3,
    ),
    rule(  # if output_size is given and a repeat is negative, torch writes out of bounds
        "repeat_interleave.Tensor",
        args={"repeats": T("m", "index", (0, 2)), "output_size": C((None,))},
        unchecked=frozenset(["output_size"]),
    ),
    rule("pixel_shuffle", args={"self": T("* 4*c h w"), "upscale_factor": C((2, 1))}, sizes={"h": (1, 3), "w": (1, 3)}),
    rule(
        "pixel_unshuffle",
        args={"self": T("* c 2*h 2*w"), "downscale_factor": C((2, 1))},
        sizes={"h": (1, 3), "w": (1, 3)},
    ),
    rule("channel_shuffle native_channel_shuffle", args={"self": T("n g*c h w?"), "groups": I("g", "g")}),
    rule("tril triu", args={"self": T("* n m")}),
    rule("diag", args={"self": T("n m?")}),
    rule("one_hot", args={"self": T("any", "int64", (0, 3)), "num_classes": C((-1, 3, 4, 6))}),
    rule("tril_indices triu_indices", args={"row": I(0, 4), "col": I(0, 4)}),
    rule("is_nonzero item _local_scalar_dense", args={"self": T("")}),
    rule("size.int stride.int sym_size.int sym_stride.int", args={"dim": lambda c: c.dim()}),
)


# ---------------------------------------------------------------- joining

JOIN = {"tensors": Ts("like"), "sequences": Ts("like")}

JOINING = (
    rule(
        "cat concat concatenate stack hstack vstack dstack column_stack row_stack _stack block_diag meshgrid* "
        "broadcast_tensors atleast_*.Sequence flatten_dense_tensors pad_sequence",
        args=JOIN,
        mixed=25,
    ),
    # torch copies a single tensor together with the gaps between its elements, and writes beyond the result.
    rule("_stack", args={"tensors": Ts("like", layout="c")}, unchecked=frozenset(["tensors"])),
    rule("block_diag", args={"tensors": Ts("n? m?")}),
    rule("cartesian_prod", args={"tensors": Ts("m", "same")}, most_dims=1),
    rule("combinations", args={"self": T("m"), "r": I(0, 3)}),
    rule("meshgrid*", args={"tensors": Ts("m?", "same")}),
    rule("pad_sequence", args={"sequences": Ts("like", "same")}, wild=8),
    rule(
        "_chunk_cat",
        args={"tensors": Ts("n m", "same"), "dim": C((0, 1)), "num_chunks": I(1, 3)},
        unchecked=frozenset(["tensors"]),
    ),
    rule("flatten_dense_tensors", args={"tensors": Ts("any", "same")}),
    rule("unflatten_dense_tensors", args={"tensors": Ts("n m", "same", count=2), "flat": T("n*m*2", "same")}),
)


# ---------------------------------------------------------------- indexing

INDEX = {"self": T("n m c?"), "dim": C((0, 1, -1))}

INDEXING = (
    rule("index_select", args={**INDEX, "index": T("k", "index", (0, "shape[dim]-1"))}),
    rule(
        "gather",
        args={"self": T("n m"), "dim": C((0, 1, -1)), "index": T("n-1 m-1", "int64", (0, "shape[dim]-1"))},
        sizes={"n": (2, 4), "m": (2, 4)},
    ),
    rule("take", args={"self": T("n m"), "index": T("k?", "int64", ("-numel", "numel-1"))}),
    rule(
        "take_along_dim",
        args={
            "self": T("n m"),
            "indices": lambda c: c.array(T("~n ~m", "int64", (-3, 6) if c.chance(50) else (0, "min(n,m)-1"))),
            "dim": C((0, 1, -1)),
        },
    ),
    rule(
        "scatter* scatter_add scatter_reduce",
        args={
            "self": T("n m"),
            "dim": C((0, 1, -1)),
            "index": T("n m", "int64", (0, "shape[dim]-1")),
            "src": T("n m", "same"),
            "reduce": C(("sum", "prod", "mean", "amax", "amin")),
        },
    ),
    rule("scatter.reduce scatter.value_reduce", args={"reduce": C(("add", "multiply"))}),
    rule("select_scatter slice_scatter diagonal_scatter as_strided_scatter", args={"self": T("n m")}),
    rule(
        "index_add index_copy index_reduce",
        args={
            "self": T("n m"),
            "dim": C((0,)),
            "index": T("k", "index", (0, "n-1")),
            "source": T("k m", "same"),
            "reduce": C(("prod", "mean", "amax", "amin")),
        },
    ),
    rule(
        "index_add",
        args={"self": T("n m? c?"), "dim": one_dim, "index": places, "source": slices},
        sizes={"n": (1, 4), "m": (1, 4), "c": (1, 4), "k": (0, 9)},
    ),
    # The in-place form checks the memory of an empty input before the index.
    rule(
        "index_fill*",
        args={**INDEX, "index": T("k", "int64", (0, "shape[dim]-1")), "value": N()},
        sizes={"n": (1, 4), "m": (1, 4), "c": (1, 4)},
    ),
    rule("index_fill.int_Tensor", args={"value": T("")}),
    rule("index.Tensor _unsafe_index.Tensor", args={"self": T("n m c?"), "indices": index_list}),
    rule("index_put _unsafe_index_put", args={"self": T("n m"), "indices": index_list, "values": T("", "same")}),
    rule("masked_scatter", args={"mask": T("like", "bool"), "source": T("like", "same")}),
    rule("put", args={"self": T("n m"), "index": T("k", "int64", ("-numel", "numel-1")), "source": T("k", "same")}),
    rule("embedding", args={"weight": T("n m", "float"), "indices": T("k?", "index", (0, "n-1"))}, dtypes="float"),
    rule(
        "embedding_dense_backward",
        args={
            "grad_output": T("k m", "float"),
            "indices": T("k", "int64", (0, 3)),
            "num_weights": C((4,)),
            "padding_idx": C((-1, 0)),
        },
        dtypes="float",
    ),
    rule("select_backward slice_backward diagonal_backward", dtypes="float"),
)


# ---------------------------------------------------------------- creation

LIMITS = {"start": N((0, 1, -2, 0.5, 2)), "end": N((5, 3.5, 4, 10)), "step": N((1, 0.5, 2, 3))}


def is_cut_to_zero(case: Case) -> bool:
    """Return whether a range's step truncates to 0: torch divides by it, and SIGFPE kills the process."""
    step = case.args[2] if len(case.args) > 2 else case.kwargs.get("step", 1)
    return isinstance(step, (int, float, complex)) and abs(step) < 1


UNIT = {"prob": T("bcast", "same", "unit"), "p": C((0.5, 0.0, 1.0, 0.25))}
CREATION = (
    rule("arange* range* linspace* logspace*", args=LIMITS),
    rule("range.step range.out", args={"step": N((1, 1.5, 2, 3))}, dies=is_cut_to_zero),
    rule(
        "linspace.Tensor* logspace.Tensor* linspace.Scalar_Tensor logspace.Scalar_Tensor",
        args={"start": T("", "real", "tame"), "end": T("", "real", "tame")},
    ),
    rule("linspace.Tensor_Scalar logspace.Tensor_Scalar", args={"end": LIMITS["end"]}),
    rule("linspace.Scalar_Tensor logspace.Scalar_Tensor", args={"start": LIMITS["start"]}),
    rule("eye*", args={"n": I(0, 4), "m": I(0, 4)}),
    rule("empty_strided new_empty_strided", args={"size": small_sizes, "stride": flat_strides}),
    rule("empty_permuted", args={"size": small_sizes, "shape": small_sizes, "physical_layout": permutation}),
    rule("resize resize_as", args={"size": small_sizes, "the_template": T("any")}),
    # The limits of dtypes, and ranges for which torch uses two words for each number.
    rule(
        "randint*",
        args={"low": C((0, -3, 2, -129)), "high": C((3, 9, 128, 256, 257, 2049, 2052, 2**28, 2**31))},
        dtypes="real",
    ),
    rule("randint_like.Tensor randint_like.Tensor_generator", args={"high": T("", "int64", (3, 9))}),
    rule(
        "random.from random.to",
        args={"from": C((-3, 0, 2, -(2**63))), "to": C((3, 9, 128, 256, 257, 2049, 2052, 2**28, 2**31))},
    ),
    rule("randperm*", args={"n": C((0, 1, 2, 7, 30, 128, 129, 256, 257, 2049, 2050, 5000, 70_000))}),
    rule("_dim_arange", args={"like": T("n m"), "dim": I(0, 1)}),
    rule("to.dtype_layout to.device to.dtype to.other _to_copy", dtypes="every", args={"other": T("any", "any")}),
    rule(
        "normal.* normal",
        dtypes="float",
        args={"mean": T("any", "main", "tame"), "std": T("like", "same", "positive")},
        wild=8,
    ),
    rule("normal.float_Tensor normal.float_float", args={"mean": C((0.0, 1.0, -2.5))}),
    rule("normal.Tensor_float normal.float_float", args={"std": C((1.0, 0.5, 0.0))}),
    rule("normal_functional", args={"mean": C((0.0, 1.0)), "std": C((1.0, 0.5))}),
    rule("uniform", args={"from": C((0.0, -1.0, -3e38)), "to": C((1.0, 2.0, 3e38))}),
    rule(
        "bernoulli bernoulli.Tensor", args={"self": T("any", "main", "unit"), "p": T("like", "float", "unit")}, wild=5
    ),
    rule("bernoulli.p", args=UNIT),
    rule(
        "dropout native_dropout alpha_dropout feature_dropout feature_alpha_dropout",
        args={"p": C((0.5, 0.0, 1.0, 0.25)), "input": T("n m c?")},
    ),
    rule("rrelu*", args={"lower": N((0.125, 0.1, 0)), "upper": N((0.3, 0.5, 1))}),
    # torch writes the noise as contiguous, whatever its strides, and so writes beyond an expanded one.
    rule("rrelu_with_noise_functional", args={"noise": T("like", "same", "unit", layout="c")}),
    # In training the result has the strides of the noise, otherwise those of the input. The forward operator gives both
    # the same layout.
    rule("rrelu_with_noise_backward", args={"self": T("bcast", layout="c"), "noise": T("bcast", layout="c")}),
    rule("binomial", args={"count": T("any", "main", (0, 60)), "prob": T("like", "same", "unit")}),
    rule("poisson", args={"self": T("any", "main", "positive")}),
    rule("multinomial", args={"self": T("n? 4", "float", "positive"), "num_samples": I(1, 4)}),
    rule("geometric", args={"p": C((0.5, 0.25, 1.0, 0.1))}),
    rule("exponential log_normal cauchy", args=dict.fromkeys(("lambd", "std", "sigma"), C((1.0, 0.5, 2.0, 0.0)))),
    rule("normal uniform", args={"shape": small_sizes}),
)


ROWS = (*SHAPE_AND_VIEWS, *JOINING, *INDEXING, *CREATION)
