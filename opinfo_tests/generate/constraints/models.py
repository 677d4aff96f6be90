"""Constraints of attention, recurrence, sequences and bags; see `opinfo_tests.generate.constraints.constraint`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...case import is_float
from .constraint import C, ConstraintRule, D, I, N, T, Ts, rule

# ---------------------------------------------------------------- attention and recurrence

# r query heads share one key head. None of the scales is 0.5, the default for a head size of 4, because a kernel that
# ignores ``scale`` would then pass.
MASKS = ("h w", "h w", "~h ~w", "n 1 h w", "~n g*r ~h w", "~n h w")


def filled(call: Any, spec: T, values: Any) -> Any:
    """Generate an array filled with ``values``, in a layout whose elements do not overlap."""
    a = call.array(spec if spec.layout else replace(spec, layout=call.choose(("c", "step", "offset"))))
    a.on(call.buffers)[...] = values
    return a


def closing(call: Any, a: Any) -> Any:
    """Return the mask ``a``; in half of the float masks, one row or the first column is first set to -inf, in place."""
    view = a.on(call.buffers)
    if view.ndim > 1 and view.size and is_float(view.dtype) and call.chance(50):
        view[(..., call.integer(0, view.shape[-2] - 1), slice(None)) if call.chance(50) else (..., 0)] = -np.inf
    return a


def mask_of_scores(call: Any) -> Any:
    """Generate an attention mask, boolean or additive."""
    return closing(call, call.array(T(call.choose(MASKS), call.choose(["same", "same", "bool"]))))


QKV = {"query": T("n g*r h 4"), "key": T("n g w 4", "same"), "value": T("n g w 4", "same"), "dropout_p": C((0.0,)),
  "dropout_mask": T("n g*r h w", "bool"), "scale": C((None, 0.3, -0.5)),
       "enable_gqa": lambda c: c.size("r") > 1 or c.chance(30), "attn_mask": mask_of_scores,
       "is_causal": lambda c: c.held.get("attn_mask") is None and c.chance(50)}  # fmt: skip
# torch's loops read the values of each head as contiguous, whatever the strides.
DENSE_QKV = {k: replace(v, layout="c") if isinstance(v, T) else v for k, v in QKV.items()}
DENSE_QKV |= {
    "attn_mask": lambda c: (
        None if c.held.get("is_causal") else closing(c, c.array(T(c.choose(MASKS[:4]), "same", layout="c")))
    ),
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
    """Generate the weight matrices of each layer and direction, and their biases if the call has biases."""
    found = []
    for layer in range(call.size("layers")):
        for _ in range(call.size("ways")):
            shapes = ["g*h ways*h" if layer else "g*h k", "g*h h", *(["g*h", "g*h"] if call.held_bias() else [])]
            found += [call.array(T(shape, "same")) for shape in shapes]
    return found


# Packed batch sizes: the number of sequences that have each step, with 4 elements in all.
STEPS = ([2, 2], [3, 1], [2, 1, 1], [1, 1, 1, 1], [4])


def steps(call: Any) -> list[int]:
    """Return the batch size at each step, which is chosen once for each call."""
    if "steps" not in call.once:
        call.once["steps"] = call.choose(STEPS)
    return call.once["steps"]


def recurrent(gates: int, name: str) -> tuple[ConstraintRule, ...]:
    """Return the rules for a recurrent cell, for layers of it, and for layers on packed sequences."""
    common = {
        "always": frozenset(["b_ih", "b_hh"]),
        "dtypes": "wide",
        "mixed": 0,
        "values": "tame",
        "sizes": {
            "g": (gates, gates),
            "h": (1, 3),
            "k": (1, 3),
            "layers": (1, 2),
            "ways": (1, 2),
            "first": (0, 1),
            "most": (1, 4),
        },
        "wild": 0,
    }
    layer = {
        "input": lambda c: c.array(T("n d k" if c.size("first") else "d n k")),
        "params": weights,
        "has_biases": lambda c: c.held_bias(),
        "num_layers": lambda c: c.size("layers"),
        "dropout": C((0.0, 0.0, 1.0)),
        "train": C((False, True)),
        "bidirectional": lambda c: c.size("ways") == 2,
        "batch_first": lambda c: bool(c.size("first")),
        "data": T("4 k"),
        "batch_sizes": lambda c: filled(c, T(str(len(steps(c))), "int64", (1, 1), layout="c"), steps(c)),
    }

    def state(shape: str) -> dict[str, Any]:
        def draw(call: Any) -> Any:
            call.sizes["most"] = steps(call)[0]
            made = [call.array(T(shape, "same")) for _ in range(2 if name == "lstm" else 1)]
            return made if name == "lstm" else made[0]

        return {"hx": draw}

    return (
        rule(f"{name}_cell", args=CELL | state("n h"), **common),
        rule(f"{name}.input", args=layer | state("layers*ways n h"), **common),
        rule(f"{name}.data", args=layer | state("layers*ways most h"), **common),
    )


ATTENTION_AND_RECURRENCE = (
    rule(
        "scaled_dot_product_attention _scaled_dot_product_attention_math _scaled_dot_product_flash_attention_for_cpu _fused_sdp_choice",
        args=QKV,
        dtypes="halffloat",
        mixed=0,
        values="tame",
        sizes={"h": (1, 4), "w": (1, 4), "r": (1, 2)},
        always=frozenset(["enable_gqa"]),
        wild=6,
    ),
    rule("_fused_sdp_choice", none=False),
    # torch computes the query's number of heads modulo the key's, even if the key has no heads.
    rule("scaled_dot_product_attention", dies=lambda case: case.arrays()[1].shape[-3:-2] == (0,)),
    rule("_scaled_dot_product_attention_math", args={"dropout_p": C((0.0, 0.5))}),
    rule("_scaled_dot_product_flash_attention_for_cpu", args=DENSE_QKV),
    rule(
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        args={
            **DENSE_QKV,
            "grad_out": T("n g*r h 4", layout="c"),
            # The drawn logsumexp is not that of these scores, so exp(score - logsumexp) could overflow for large
            # scores. The values "unit" keep the scores small.
            "query": T("n g*r h 4", "same", "unit", layout="c"),
            "key": T("n g w 4", "same", "unit", layout="c"),
            "out": T("n g*r h 4", "same", layout="c"),
            "logsumexp": T("n g*r h", "same", "unit"),
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
        wild=0,  # torch reads the bias as 12 numbers of the same dtype, and divides by num_heads
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
            "lengths": lambda c: filled(
                c, T("2", "int64", (1, 1)), c.choose(([2, 2], [3, 2], [3, 1], [1, 1], [2, 3], [3, 0]))
            ),
            "batch_first": lambda c: bool(c.size("first")),
        },
        sizes={"first": (0, 1)},
        wild=0,
    ),
    rule(
        "_pad_packed_sequence",
        args={
            "data": T("4 k"),
            "batch_sizes": lambda c: filled(c, T(str(len(steps(c))), "int64", (1, 1)), steps(c)),
            "batch_first": C((False, True)),
            "padding_value": N((0, 1.5)),
            "total_length": lambda c: c.choose((-1, 0, len(steps(c)) - 1, len(steps(c)), 5)),
        },
        wild=0,
    ),
    rule(
        "_pack_padded_sequence_backward",
        args={
            "grad": T("4 k"),
            "input_size": lambda c: list(c.shape_of(f"{steps(c)[0]} 4 k" if c.size("first") else f"4 {steps(c)[0]} k")),
            "batch_sizes": lambda c: filled(c, T(str(len(steps(c))), "int64", (1, 1)), steps(c)),
            "batch_first": lambda c: bool(c.size("first")),
        },
        sizes={"first": (0, 1)},
        wild=0,
    ),
)


# ---------------------------------------------------------------- sequences, bags, heads


def labels(call: Any) -> list[int]:
    """Return the lengths of two label sequences, which are chosen once for each call."""
    if "labels" not in call.once:
        call.once["labels"] = call.choose(([2, 2], [1, 2], [0, 2], [2, 0]))
    return call.once["labels"]


def targets(call: Any) -> Any:
    """Generate labels other than the blank; torch reads concatenated labels as contiguous."""
    row = T(str(sum(labels(call))), "int64", (1, 2), layout="c")
    a = call.array(T("2 2", "int64", (1, 2)) if call.chance(60) else row)
    view = a.on(call.buffers)
    view[...] = (view + call.size("blank")) % 3
    return a


def some_infinite(call: Any) -> Any:
    """Generate losses, some of them infinite, as for targets that have no alignment."""
    a = call.array(T("2", "same"))
    if call.chance(40):
        a.on(call.buffers)[0] = np.inf
    return a


_CTC = {
    "log_probs": T("4 2 3"),
    "targets": targets,
    "input_lengths": C(([4, 4], [4, 3], [4, 1])),
    "target_lengths": lambda c: labels(c),
    "blank": lambda c: c.size("blank"),
}
# torch reads bag_size as contiguous, whatever its strides.
_BAG_GRAD = {"grad": T("2 m"), "indices": T("4", "int64", (0, 2)), "offsets": T("2", "int64", (0, 0)),
  "offset2bag": T("4", "int64", (0, 1)), "bag_size": T("2", "int64", (2, 2), layout="c"),
             "maximum_indices": T("2 m", "int64", (0, 2)), "num_weights": C((3,)), "mode": C((0, 1, 2)),
               "sparse": C((False,)), "padding_idx": C((-1, 1)),
             "per_sample_weights": lambda c: c.array(T("4", "same")) if not c.held["mode"] and c.chance(50) else None,
             "scale_grad_by_freq": C((False, True)), "weight": T("3 m", "same")}  # fmt: skip
# Lengths of two segments, 4 rows in all. With two batches, dimension 0 is the batch, and segments lie along dimension 1.
SEGMENTS = ([2, 2], [0, 4], [4, 0], [1, 3])


def segments(call: Any) -> list[list[int]]:
    """Return the lengths of two segments, for one or two batches, which are chosen once for each call."""
    if "segments" not in call.once:
        call.once["segments"] = [call.choose(SEGMENTS) for _ in range(call.integer(1, 2))]
    return call.once["segments"]


def by_segments(call: Any, first: str = "", last: str = "m") -> str:
    return f"{2 if len(segments(call)) > 1 else ''} {first} {last}"


def ends(call: Any, as_offsets: bool) -> Any:
    """Generate lengths, or offsets if ``as_offsets``; return None if the call uses the other."""
    if as_offsets != bool(call.size("offsets")):
        return None
    rows = [[0, n, 4] for n, _ in segments(call)] if as_offsets else segments(call)
    return filled(
        call, T(by_segments(call, "", str(len(rows[0]))), "int64", (0, 0)), rows if len(rows) > 1 else rows[0]
    )


_REDUCE = {
    "data": lambda c: c.array(T(by_segments(c, "4"))),
    "reduce": C(("sum", "mean", "max", "min", "prod")),
    "lengths": D(lambda c: ends(c, False)),
    "indices": C((None,)),
    "offsets": D(lambda c: ends(c, True)),
    "axis": lambda c: len(segments(c)) - 1,
    "unsafe": C((False, True)),
}
_SEGMENTED = {"sizes": {"offsets": (0, 1)}, "always": frozenset(["lengths", "offsets", "axis"])}
_HEADS = {"embed_dim": C((4,)), "num_head": I("heads", "heads"), "num_heads": I("heads", "heads"),
  "qkv_weight": T("12 4", "same"), "qkv_bias": T("12", "same"), "proj_weight": T("4 4", "same"),
  "proj_bias": T("4", "same"),
          "mask": lambda c: c.array(T(("h h", "n h", "n heads h h")[c.size("type")], "bool")),
            "mask_type": D(lambda c: c.size("type") if c.held.get("mask") else None)}  # fmt: skip
_FUSED: dict[str, Any] = {"dtypes": "wide", "values": "tame", "sizes": {"h": (1, 3), "type": (0, 2), "heads": (1, 2)},
  "wild": 0, "mixed": 0,
                          "always": frozenset(["mask", "mask_type"])}  # fmt: skip

# Equations, and the shapes of their operands.
EINSUMS = {
    "ij,jk->ik": ("n k", "k m"), "ij,jk": ("n k", "k m"), "ij,jk->ki": ("n k", "k m"), "...j,jk->...k": ("c n k", "k m"),
    "ii->": ("n n",), "ii->i": ("n n",), "ij->ji": ("n m",), "ij->": ("n m",), "ij->j": ("n m",), "i,j->ij": ("n", "m"),
    "ij,ij->": ("n m", "n m"), "bij,bjk->bik": ("c n k", "c k m"), "ijk,k": ("n m k", "k"), "ik,jk,k->ij": ("n k", "m k", "k"),
    "...ij->...ji": ("c n m",), "aib,bic->ac": ("n k m", "m k c"), "i,i->": ("n", "n"), "Aa,aB->BA": ("n k", "k m"),
}  # fmt: skip

SEQUENCES_BAGS_HEADS = (
    rule("ctc_loss _ctc_loss", args=_CTC, dtypes="wide", values="tame", mixed=0, wild=0, sizes={"blank": (0, 2)}),
    rule(
        "ctc_loss.Tensor _ctc_loss.Tensor",
        args={
            "input_lengths": T("2", "int64", (4, 4)),
            "target_lengths": lambda c: filled(c, T("2", "int64", (1, 1)), labels(c)),
        },
    ),
    rule(
        "_ctc_loss_backward",
        args={
            **_CTC,
            "grad": T("2"),
            "log_probs": T("4 2 3", "same"),
            "neg_log_likelihood": some_infinite,
            "log_alpha": T("2 4 5", "same"),
        },
        sizes={"blank": (0, 2)},
        dtypes="wide",
        values="tame",
        wild=0,
    ),
    rule(
        "_ctc_loss_backward.Tensor",
        args={
            "input_lengths": T("2", "int64", (4, 4)),
            "target_lengths": lambda c: filled(c, T("2", "int64", (1, 1)), labels(c)),
        },
    ),
    rule("_embedding_bag_backward _embedding_bag_dense_backward", args=_BAG_GRAD, dtypes="float", wild=0),
    rule(
        "_embedding_bag_per_sample_weights_backward", args={**_BAG_GRAD, "mode": C((0, 0, 0, 1))}, dtypes="wide", wild=0
    ),
    rule("segment_reduce", args=_REDUCE, dtypes="float", wild=0, **_SEGMENTED),
    rule(
        "_segment_reduce_backward",
        args={
            **_REDUCE,
            "grad": lambda c: c.array(T(by_segments(c, "2"))),
            "output": lambda c: c.array(T(by_segments(c, "2"), "same")),
            "data": lambda c: c.array(T(by_segments(c, "4"), "same")),
        },
        dtypes="wide",
        wild=0,
        **_SEGMENTED,
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
    rule("_masked_softmax_backward", wild=0),  # torch reads the output as if it had the gradient's shape
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
    # These rules come after those of mm, segment_reduce and convolutions, whose patterns match these operators, too.
    rule("_foreach_mm", args={"self": Ts("n k", count=2), "mat2": Ts("k m", "same", count=2)}, dtypes="float"),
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

# ---------------------------------------------------------------- recurrent cells below autograd

_TORCH_DIES = {"wild": 0, "mixed": 0, "wild_values": False}  # torch crashes for arguments that oneDNN does not support
_CELL = {"input": T("t b i", "float32", "tame", layout="c"), "reverse": C((False, True)), "batch_sizes": C(([],)), "mode": C((2,)),
         **{f"weight{i}": T(shape, "float32", "tame", layout="c") for i, shape in enumerate(("4*k i", "4*k k", "4*k", "4*k"))},
         "hx_": T("b k", "float32", "tame", layout="c"), "cx_": T("b k", "float32", "tame", layout="c"),
         "hidden_size": lambda c: c.size("k"), "num_layers": C((1,)), "train": C((False,))}  # fmt: skip

# For gates whose shapes do not fit the states, torch reads out of bounds.
_LSTM_GRADS = {"grad_hy": T("b k"), "grad_cy": T("b k", "same"), "input_gates": T("b 4*k", "same"),
               "hidden_gates": T("b 4*k", "same"), "input_bias": T("4*k", "same"), "hidden_bias": T("4*k", "same"),
               "cx": T("b k", "same"), "cy": T("b k", "same")}  # fmt: skip
_GRU_GRADS = {"grad_hy": T("b k", layout="c"), "input_gates": T("b 3*k", "same"), "hidden_gates": T("b 3*k", "same"),
              "hx": T("b k", "same"), "input_bias": T("3*k", "same"), "hidden_bias": T("3*k", "same")}  # fmt: skip
_GATES = {"wild": 0, "mixed": 0, "sizes": dict.fromkeys("bk", (1, 4))}

CELLS = (
    rule("_thnn_differentiable_lstm_cell_backward", args=_LSTM_GRADS, dtypes="halffloat", **_GATES),
    rule("_thnn_differentiable_gru_cell_backward", args=_GRU_GRADS, dtypes="halffloat", **_GATES),
    rule("mkldnn_rnn_layer", args=_CELL, sizes=dict.fromkeys("tbik", (1, 4)), **_TORCH_DIES),
)

ROWS = (*ATTENTION_AND_RECURRENCE, *SEQUENCES_BAGS_HEADS, *CELLS)
