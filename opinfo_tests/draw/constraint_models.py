"""The constraint rows of attention, recurrence, sequences and bags; `constraints` says how they are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .constraints import C, I, N, Rule, T, Ts, rule

# ---------------------------------------------------------------- attention and recurrence

# r heads of the queries share one of the keys; a scale of 0.5 would be that of 4 numbers by default.
QKV = {"query": T("n g*r h 4"), "key": T("n g w 4", "same"), "value": T("n g w 4", "same"), "dropout_p": C((0.0,)), "dropout_mask": T("n g*r h w", "bool"), "scale": C((None, 0.3, -0.5)),
       "enable_gqa": lambda c: c.size("r") > 1 or c.chance(30), "attn_mask": lambda c: c.array(T("h w", c.choose(["same", "same", "bool"]))),
       "is_causal": lambda c: c.held.get("attn_mask") is None and c.chance(50)}  # fmt: skip
# torch's loops read each head's values as one run of memory, whatever the strides say.
DENSE_QKV = {k: replace(v, layout="c") if isinstance(v, T) else v for k, v in QKV.items()}
DENSE_QKV |= {
    "attn_mask": lambda c: None if c.held.get("is_causal") else c.array(T("h w", "same", layout="c")),
    "is_causal": C((False, True)),
}
CELL = {
    "input": T("n k"),
    "hx": T("n h", "same"),
    "w_ih": T("g*h k", "same"),
    "w_hh": T("g*h h", "same"),
    "b_ih": T("g*h", "same"),
    "b_hh": T("g*h", "same"),
}


def weights(call: Any) -> list[Any]:
    """Return the matrices of each layer and direction, and their biases if they have any."""
    found = []
    for layer in range(call.size("layers")):
        for _ in range(call.size("ways")):
            shapes = ["g*h ways*h" if layer else "g*h k", "g*h h", *(["g*h", "g*h"] if call.held_bias() else [])]
            found += [call.array(T(shape, "same")) for shape in shapes]
    return found


def recurrent(gates: int, name: str) -> tuple[Rule, ...]:
    """Return the rows of a cell, a layer of it, and a layer over packed sequences."""
    common = {
        "always": frozenset(["b_ih", "b_hh"]),
        "dtypes": "wide",
        "mixed": 0,
        "values": "tame",
        "sizes": {"g": (gates, gates), "h": (1, 3), "k": (1, 3), "layers": (1, 2), "ways": (1, 2), "first": (0, 1)},
        "wild": 0,
    }
    layer = {
        "input": lambda c: c.array(T("n d k" if c.size("first") else "d n k")),
        "params": weights,
        "has_biases": lambda c: c.held_bias(),
        "num_layers": lambda c: c.size("layers"),
        "dropout": C((0.0,)),
        "train": C((False, True)),
        "bidirectional": lambda c: c.size("ways") == 2,
        "batch_first": lambda c: bool(c.size("first")),
        "data": T("4 k"),
        "batch_sizes": lambda c: c.array(T("2", "int64", (2, 2), layout="c")),
    }

    def state(shape: str) -> dict[str, Any]:
        return {"hx": Ts(shape, "same", count=2) if name == "lstm" else T(shape, "same")}

    return (
        rule(f"{name}_cell", args=CELL | state("n h"), **common),
        rule(f"{name}.input", args=layer | state("layers*ways n h"), **common),
        rule(f"{name}.data", args=layer | state("layers*ways 2 h"), **common),
    )


ATTENTION_AND_RECURRENCE = (
    rule(
        "scaled_dot_product_attention _scaled_dot_product_attention_math _scaled_dot_product_flash_attention_for_cpu",
        args=QKV,
        dtypes="halffloat",
        mixed=0,
        values="tame",
        sizes={"h": (1, 4), "w": (1, 4), "r": (1, 2)},
        always=frozenset(["enable_gqa"]),
        wild=6,
    ),
    rule("_scaled_dot_product_attention_math", args={"dropout_p": C((0.0, 0.5))}),
    rule("_scaled_dot_product_flash_attention_for_cpu", args=DENSE_QKV),
    rule(
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        args={
            **DENSE_QKV,
            "grad_out": T("n g*r h 4", layout="c"),
            # Sums that are none of these scores': of large ones the exponential overflows, and torch's order decides.
            "query": T("n g*r h 4", "same", "unit", layout="c"),
            "key": T("n g w 4", "same", "unit", layout="c"),
            "out": T("n g*r h 4", "same", layout="c"),
            "logsumexp": T("n g*r h", "float32", "unit"),
        },
        dtypes="wide",
        values="tame",
        sizes={"h": (1, 4), "w": (1, 4), "r": (1, 2)},
        wild=0,
    ),
    rule(
        "_transform_bias_rescale_qkv",
        args={"qkv": T("n h 12"), "qkv_bias": T("12", "same"), "num_heads": C((1, 2, 4))},
        dtypes="wide",
        sizes={"h": (1, 3)},
        wild=0,  # torch reads the bias as 12 numbers of the same dtype, and divides by the heads
    ),
    *(
        row
        for gates, name in ((1, "rnn_relu"), (1, "rnn_tanh"), (3, "gru"), (4, "lstm"))
        for row in recurrent(gates, name)
    ),
    rule(
        "_pack_padded_sequence",
        args={
            "input": lambda c: c.array(T("2 3 k" if c.size("first") else "3 2 k")),
            "lengths": lambda c: c.array(T("2", "int64", (2, 2))),
            "batch_first": lambda c: bool(c.size("first")),
        },
        sizes={"first": (0, 1)},
        wild=0,
    ),
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
    ),
    rule(
        "_pack_padded_sequence_backward",
        args={
            "grad": T("6 k"),
            "input_size": lambda c: list(c.shape_of("2 3 k" if c.size("first") else "3 2 k")),
            "batch_sizes": T("3", "int64", (2, 2)),
            "batch_first": lambda c: bool(c.size("first")),
        },
        sizes={"first": (0, 1)},
        wild=0,
    ),
)


# ---------------------------------------------------------------- sequences, bags, heads

_CTC = {
    "log_probs": T("4 2 3"),
    "targets": T("2 2", "int64", (1, 2)),
    "input_lengths": C(([4, 4], [4, 3], [4, 1])),
    "target_lengths": C(([2, 2], [1, 2])),
    "blank": C((0,)),
}
# torch reads the sizes of bags one after another, whatever their strides.
_BAG_GRAD = {"grad": T("2 m"), "indices": T("4", "int64", (0, 2)), "offsets": T("2", "int64", (0, 0)), "offset2bag": T("4", "int64", (0, 1)), "bag_size": T("2", "int64", (2, 2), layout="c"),
             "maximum_indices": T("2 m", "int64", (0, 2)), "num_weights": C((3,)), "mode": C((0, 1, 2)), "sparse": C((False,)), "padding_idx": C((-1, 1)),
             "per_sample_weights": lambda c: c.array(T("4", "same")) if not c.held["mode"] and c.chance(50) else None,
             "scale_grad_by_freq": C((False, True)), "weight": T("3 m", "same")}  # fmt: skip
_REDUCE = {
    "data": T("4 m"),
    "reduce": C(("sum", "mean", "max", "min", "prod")),
    "lengths": T("2", "int64", (2, 2)),
    "indices": C((None,)),
    "offsets": C((None,)),
    "axis": C((0,)),
    "unsafe": C((False, True)),
}
_HEADS = {"embed_dim": C((4,)), "num_head": C((2, 1)), "num_heads": C((2, 1)), "qkv_weight": T("12 4", "same"), "qkv_bias": T("12", "same"), "proj_weight": T("4 4", "same"), "proj_bias": T("4", "same"),
          "mask": C((None,)), "mask_type": C((None,))}  # fmt: skip
_FUSED: dict[str, Any] = {"dtypes": "wide", "values": "tame", "sizes": {"h": (1, 3)}, "wild": 0, "mixed": 0}

# Equations with the shapes of their operands.
EINSUMS = {
    "ij,jk->ik": ("n k", "k m"), "ij,jk": ("n k", "k m"), "ij,jk->ki": ("n k", "k m"), "...j,jk->...k": ("c n k", "k m"),
    "ii->": ("n n",), "ii->i": ("n n",), "ij->ji": ("n m",), "ij->": ("n m",), "ij->j": ("n m",), "i,j->ij": ("n", "m"),
    "ij,ij->": ("n m", "n m"), "bij,bjk->bik": ("c n k", "c k m"), "ijk,k": ("n m k", "k"), "ik,jk,k->ij": ("n k", "m k", "k"),
    "...ij->...ji": ("c n m",), "aib,bic->ac": ("n k m", "m k c"), "i,i->": ("n", "n"), "Aa,aB->BA": ("n k", "k m"),
}  # fmt: skip

SEQUENCES_BAGS_HEADS = (
    rule("ctc_loss _ctc_loss", args=_CTC, dtypes="wide", values="tame", mixed=0, wild=0),
    rule(
        "ctc_loss.Tensor _ctc_loss.Tensor",
        args={"input_lengths": T("2", "int64", (4, 4)), "target_lengths": T("2", "int64", (1, 2))},
    ),
    rule(
        "_ctc_loss_backward",
        args={
            **_CTC,
            "grad": T("2"),
            "log_probs": T("4 2 3", "same"),
            "neg_log_likelihood": T("2", "same"),
            "log_alpha": T("2 4 5", "same"),
        },
        dtypes="wide",
        values="tame",
        wild=0,
    ),
    rule(
        "_ctc_loss_backward.Tensor",
        args={"input_lengths": T("2", "int64", (4, 4)), "target_lengths": T("2", "int64", (2, 2))},
    ),
    rule("_embedding_bag_backward _embedding_bag_dense_backward", args=_BAG_GRAD, dtypes="float", wild=0),
    rule(
        "_embedding_bag_per_sample_weights_backward", args={**_BAG_GRAD, "mode": C((0, 0, 0, 1))}, dtypes="wide", wild=0
    ),
    rule("segment_reduce", args=_REDUCE, dtypes="float", always=frozenset(["lengths"]), wild=0),
    rule(
        "_segment_reduce_backward",
        args={**_REDUCE, "grad": T("2 m"), "output": T("2 m", "same"), "data": T("4 m", "same")},
        dtypes="wide",
        always=frozenset(["lengths"]),
        wild=0,
    ),
    rule(
        "_native_multi_head_attention",
        args={
            **_HEADS,
            "query": T("n h 4"),
            "key": lambda c: c.keep(c.arrays[0]),
            "value": lambda c: c.keep(c.arrays[0]),
        },
        **_FUSED,
    ),
    rule(
        "_transformer_encoder_layer_fwd",
        args={
            **_HEADS,
            "src": T("n h 4"),
            "norm_weight_1": T("4", "same"),
            "norm_bias_1": T("4", "same"),
            "norm_weight_2": T("4", "same"),
            "norm_bias_2": T("4", "same"),
            "ffn_weight_1": T("3 4", "same"),
            "ffn_bias_1": T("3", "same"),
            "ffn_weight_2": T("4 3", "same"),
            "ffn_bias_2": T("4", "same"),
        },
        **_FUSED,
    ),
    rule(
        "einsum",
        args={
            "equation": C(tuple(EINSUMS)),
            "tensors": lambda c: [c.array(T(shape, "same")) for shape in EINSUMS[c.held["equation"]]],
            "path": lambda c: [0, 1] * (len(c.held["tensors"]) - 1) or [0],
        },
        dtypes="inexact",
        mixed=2,
    ),
    rule(
        "_masked_softmax _masked_softmax_backward",
        args={
            "self": T("n g h h"),
            "mask": T("n g h h", "bool"),
            "grad_output": T("n g h h"),
            "output": T("n g h h", "same", "unit"),
            "dim": C((3, -1)),
            "mask_type": C((2,)),
        },
        dtypes="wide",
        wild=4,
    ),
    rule("_masked_softmax_backward", wild=0),  # torch reads the output in the shape of the gradient
    rule(
        "_fused_adam _fused_adamw _fused_adam.tensor_lr _fused_adamw.tensor_lr",
        args={
            "max_exp_avg_sqs": lambda c: [
                c.array(T("3 2", "same", "positive", layout="c")) for _ in c.held["self"] * c.size("ams")
            ],
            "amsgrad": lambda c: bool(c.size("ams")),
        },
        sizes={"ams": (0, 1)},
    ),
    # After the rows of mm, segment_reduce and convolutions, which their names match too.
    rule("_foreach_mm", args={"self": Ts("n k", count=2), "mat2": Ts("k m", "same", count=2)}, dtypes="float"),
    rule(
        "segment_reduce",
        args={
            "lengths": T("2", "int64", (2, 2), always=True),
            "indices": lambda c: c.array(T("4", "int64", (0, 1))) if c.chance(20) else None,
            "offsets": C((None,)),
            "unsafe": C((True,)),
        },
    ),
    rule("_lu_with_info", args={"self": T("* n n", "main", "square")}, dtypes="lapack"),
    rule(
        "narrow.Tensor",
        args={"self": T("n m k"), "dim": I(0, 1), "start": T("", "int64", (0, 0))},
        sizes={"n": (1, 4), "m": (1, 4)},
    ),
    rule("linalg_tensorsolve", wild=6),
    rule(
        "_linalg_check_errors",
        args={"info": T("n", "int32", (0, 1)), "api_name": C(("linalg.inv", "linalg.eigh")), "is_matrix": C((False,))},
        mixed=0,
        wild=0,
    ),
)

ROWS = (*ATTENTION_AND_RECURRENCE, *SEQUENCES_BAGS_HEADS)
