"""Constraints of view and indexing gradients, embedding bags and histograms.

See `opinfo_tests.generate.constraints.constraint`.
"""

from __future__ import annotations

from typing import Any

from .constraint import C, D, I, N, T, Ts, index_list, rule, sizes, tame

# ---------------------------------------------------------------- gradients of views and indexing

ROWS_OF = {"grad": T("n m"), "grad_output": T("n m")}


def _offsets_to_the_end(call: Any) -> bool:
    """Generate ``include_last_offset``; if true, set the last offset to the number of indices.

    Otherwise torch writes beyond its result.
    """
    last = call.choose([False, True])
    if last:
        call.held["offsets"].on(call.buffers)[-1] = call.held["indices"].shape[0]
    return last


# With indices or offsets of other ranks, or empty ones, torch reads and writes out of bounds.
BAG = {"weight": T("n m"), "indices": tame(lambda c: T("4", "index", (0, "n-1"), layout="c")),
  "offsets": tame(lambda c: T("b", c.choose((*[c.held["indices"].dtype] * 3, "int64", "int32")), (0, 0), layout="c")),
  "mode": I(0, 2), "include_last_offset": _offsets_to_the_end,
       "per_sample_weights": lambda c: c.array(T("4", "same")) if c.wild or not c.held.get("mode") else None,
         "padding_idx": C((-1, 0))}  # fmt: skip

GRADIENTS_OF_VIEWS_AND_INDEXING = (
    rule(
        "select_backward",
        args={"grad_output": T("m"), "input_sizes": sizes("n m"), "dim": C((0, -2)), "index": I("-n", "n-1")},
    ),
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
    ),
    rule(
        "diagonal_backward",
        args={
            "grad_output": T("n"),
            "input_sizes": sizes("n n"),
            "offset": C((0,)),
            "dim1": C((0, -2)),
            "dim2": C((1, -1)),
        },
    ),
    rule(
        "select_scatter", args={"src": T("m", "same"), "dim": C((0, -2)), "index": I("-n", "n-1")}, sizes={"n": (1, 3)}
    ),
    rule(
        "diagonal_scatter",
        args={"self": T("n n"), "src": T("n", "same"), "offset": C((0,)), "dim1": C((0,)), "dim2": C((1,))},
        sizes={"n": (1, 3)},
    ),
    rule(
        "slice_scatter",
        args={
            "self": T("n+2 m"),
            "src": T("n m", "same"),
            "dim": C((0,)),
            "start": D(lambda c: (1, 2, None)[c.size("ends")]),
            "end": D(lambda c: (c.value("n+1"), None, c.value("n"))[c.size("ends")]),
            "step": C((1,)),
        },
        sizes={"ends": (0, 2)},
        always=frozenset(["start", "end"]),
    ),
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
    ),
    rule(
        "unfold_backward",
        args={"grad_in": T("n 2 3"), "input_sizes": sizes("n 4"), "dim": C((1,)), "size": C((3,)), "step": C((1,))},
    ),
    rule("trace_backward", args={"grad": T(""), "sizes": sizes("n m")}),
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
    ),
    rule(
        "index_select_backward",
        args={"grad": T("k m"), "self_sizes": sizes("n m"), "dim": C((0,)), "index": T("k", "int64", (0, "n-1"))},
    ),
    rule(
        "cummaxmin_backward",
        args={
            "grad": T("n m"),
            "input": T("n m", "same"),
            "indices": T("n m", "int64", (0, "shape[dim]-1")),
            "dim": C((0, 1)),
        },
        sizes={"m": (1, 4)},
    ),
    rule("cummaxmin_backward", args={"indices": T("n m", "int64", (0, "min(n,m)-1"))}),
    rule(
        "value_selecting_reduction_backward",
        args={
            "grad": T("n kept?"),
            "dim": C((1,)),
            "indices": T("n kept?", "int64", (0, "m-1")),
            "sizes": sizes("n m"),
            "keepdim": lambda c: bool(c.sizes["kept?"]),
        },
        sizes={"m": (1, 4), "kept": (1, 1)},
    ),
    rule("masked_scatter_backward", args={"grad_output": T("n m"), "mask": T("n m", "bool"), "sizes": sizes("n*m")}),
    rule("masked_select_backward", args={"grad": T("n*m"), "input": T("n m", "same"), "mask": T("n m", "bool")}),
    rule("masked_fill.Tensor", args={"value": T("", "same")}),
    rule("sum_to_size", args={"self": T("n m c"), "size": C(([1], [1, 1], [1, 1, 1], []))}, wild=20),
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
    ),
    rule("embedding_dense_backward", wild_values=False),
    rule(
        "embedding_renorm",
        args={
            "self": T("n m"),
            "indices": T("k", "int64", (0, "n-1")),
            "max_norm": C((1.0, 0.5)),
            "norm_type": C((2.0, 1.0)),
        },
        dtypes="wide",
    ),
    rule(
        "embedding_bag _embedding_bag _embedding_bag_forward_only",
        args=BAG,
        dtypes="float",
        sizes={"m": (1, 4), "b": (1, 3)},
        wild_values=False,
        unchecked=frozenset(["indices", "offsets"]),
    ),
    rule("embedding_bag.padding_idx", args={"padding_idx": C((None, 0, -1, 1))}),
    rule(
        "_unsafe_masked_index",
        args={
            "self": T("n m"),
            "mask": T("k", "bool"),
            "indices": lambda c: [c.array(T("k", "int64", (0, "n-1"))), c.array(T("k", "int64", (0, "m-1")))],
        },
        sizes={"m": (1, 4)},
        wild_values=False,
    ),
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
    ),
    rule(
        "_index_put_impl",
        args={
            "self": T("n m"),
            "indices": index_list,
            "values": T("", "same"),
            "unsafe": lambda c: not c.wild and c.chance(50),
        },
    ),
    rule("index.Tensor _unsafe_index.Tensor index_put _unsafe_index_put _index_put_impl", sizes={"m": (1, 4)}),
    rule("_unsafe_index*", wild_values=False),
    # With other shapes torch's result depends on whether the input contains a zero: it then differs or is an error.
    rule("cumprod_backward", args={"input": T("like"), "output": T("like")}, wild=0),
    rule("histogram.bin_ct", args={"bins": I(1, 5), "weight": T("like", "same")}, dtypes="wide", values="tame"),
    rule(
        "histogram.bins_tensor",
        args={"bins": T("c", "same", "distinct"), "weight": T("like", "same")},
        dtypes="wide",
        values="tame",
    ),
    rule("histogram*", args={"range": C((None, [0.0, 2.0], [1.0, 1.0], [2.0, -1.0], []))}),
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
    ),
    rule("histogramdd.int_bins", args={"bins": I(1, 4)}),
    rule(
        "histogramdd.TensorList_bins _histogramdd_from_bin_tensors",
        args={"bins": Ts("c", "same", "distinct", count=2)},
        sizes={"c": (2, 4)},
    ),
    rule("vander", args={"x": T("m"), "N": C((None, 0, 2, 4))}),
    rule("prims::normal", args={"mean": N((0.0, 1.0)), "std": N((1.0, 0.5)), "dtype": lambda c: c.named("float32")}),
    rule(
        "prims::uniform",
        args={
            "low": N((0.0, -1.0)),
            "high": N((1.0, 2.0)),
            "dtype": lambda c: c.named("float32"),
            "shape": lambda c: [2, 3],
            "stride": lambda c: [3, 1],
        },
    ),
    rule(
        "norm.ScalarOpt_dtype norm.ScalarOpt_dim_dtype",
        args={"dtype": lambda c: c.named(c.choose(["float32", "float64"]))},
        dtypes="float",
    ),
    rule("norm.ScalarOpt_dtype norm.ScalarOpt_dim_dtype", dtypes="halffloat"),
)

ROWS = GRADIENTS_OF_VIEWS_AND_INDEXING
