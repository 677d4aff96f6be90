"""Constraints of norms, losses and optimisers; see `opinfo_tests.generate.constraints.constraint`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .constraint import C, D, I, N, T, Ts, rule

# ---------------------------------------------------------------- norms and losses

PER_CHANNEL = {
    "weight": T("c", "same"),
    "bias": T("c", "same"),
    "running_mean": T("c", "same", "tame"),
    "running_var": T("c", "same", "positive"),
}


def statistics(saved: bool, values: str) -> D:
    """Return a constraint for statistics that training saves or that evaluation reads; torch needs one of these."""
    return D(lambda c: c.array(T("c", "same", values)) if bool(c.size("training")) == saved or c.chance(50) else None)


STATISTICS = {
    "running_mean": statistics(False, "tame"),
    "running_var": statistics(False, "positive"),
    "save_mean": statistics(True, "tame"),
    **dict.fromkeys(("save_invstd", "save_var", "save_var_transform"), statistics(True, "positive")),
    **dict.fromkeys(("train", "update"), lambda c: bool(c.size("training"))),
}
NLL = {"self": T("n c"), "target": T("n", "int64", (0, "c-1")), "weight": T("c", "same"),
  "total_weight": T("", "same", "positive"), "label_smoothing": C((0.0, 0.1)),
       "grad_output": T("", "same")}  # fmt: skip


def classes_or_probabilities(c: Any) -> Any:
    return c.array(T("n? c h?", "same", "unit") if c.chance(40) else T("n? h?", "int64", (0, "c-1")))


NORMS_AND_LOSSES = (
    rule(
        "*batch_norm* _batch_norm_impl_index instance_norm",
        args={
            "input": T("n c h?"),
            **PER_CHANNEL,
            "momentum": C((0.1, 0.5)),
            "train": C((True, False)),
            "training": C((True, False)),
        },
        mixed=0,
    ),
    rule(
        "_native_batch_norm_legit_functional _batch_norm_with_update_functional _batch_norm_no_update _native_batch_norm_legit_no_training",
        args={k: replace(PER_CHANNEL[k], always=True) for k in ("running_mean", "running_var")},
    ),
    # torch does not check the sizes of these operators' parameters, and reads beyond smaller ones. In evaluation
    # without running statistics it crashes, because it reads them all the same.
    rule(
        "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional _batch_norm_with_update "
        "_native_batch_norm_legit_no_training _batch_norm_with_update_functional _batch_norm_no_update",
        args={"training": lambda c: c.held["running_mean"] is None or c.chance(50)},
        wild=0,
    ),
    # For a channel with a single number, torch subtracts two products, which cancel exactly only for small numbers.
    rule("instance_norm", args={"input": T("n c h", values="tame"), "use_input_stats": C((True, True, False))}),
    rule(
        "batch_norm_backward native_batch_norm_backward",
        args={
            "grad_out": T("n c h", values="tame"),  # sums that cancel depend on the order of additions
            "input": T("n c h", "same"),
            "save_mean": T("c", "same"),
            "save_invstd": T("c", "same", "positive"),
            "save_var": T("c", "same", "positive"),
            "reserve": T("0", "uint8"),
            "update": C((True, False)),
        },
    ),
    # Without these arrays torch reads arbitrary memory; other values of impl_index are for other devices.
    rule(
        "_batch_norm_impl_index_backward",
        args={
            "impl_index": C((0,)),
            "input": T("n c h"),
            "grad_output": T("n c h", "same"),
            "weight": T("c", "same"),
            **STATISTICS,
            "reservedSpace": T("0", "uint8"),
        },
        sizes={"training": (0, 1)},
        wild=0,
        wild_values=False,
        mixed=0,
    ),
    rule(
        "batch_norm_update_stats",
        wild=0,  # torch does not check the sizes of the arrays that it writes
    ),
    rule(
        "layer_norm native_layer_norm rms_norm _fused_rms_norm",
        args={"input": T("n m c"), "normalized_shape": C(([],)), "weight": T("c", "same"), "bias": T("c", "same")},
    ),
    rule(
        "layer_norm native_layer_norm rms_norm _fused_rms_norm native_layer_norm_backward",
        args={"normalized_shape": lambda c: list(c.shape[-1:])},
        sizes={"n": (1, 3), "m": (1, 4), "c": (1, 4)},
    ),
    rule(
        "native_layer_norm_backward",
        args={
            "grad_out": T("n m c"),
            "input": T("n m c", "same"),
            "mean": T("n m 1", "same", "tame", layout="c"),  # torch reads it as contiguous, whatever its strides
            "rstd": T("n m 1", "same", "positive", layout="c"),
            "weight": T("c", "same"),
            "bias": T("c", "same"),
        },
        wild=0,  # torch does not check the shapes of grad_out, mean and rstd; some shapes crash it
    ),
    rule(
        "group_norm native_group_norm",
        args={
            "input": T("n g*c h"),
            "num_groups": I("g", "g"),
            # torch reads both as contiguous, whatever their strides
            "weight": T("g*c", "same", "tame", layout="c"),
            "bias": T("g*c", "same", layout="c"),
            "N": I("n", "n"),
            "C": I("g*c", "g*c"),
            "HxW": I("h", "h"),
            "group": I("g", "g"),
        },
    ),
    rule(
        # torch expands the formula, so infinities and overflowing sums give NaN in other elements.
        "native_group_norm_backward",
        args={
            # torch reads all five as contiguous, whatever their strides
            "grad_out": T("n g*c h", values="tame", layout="c"),
            "input": T("n g*c h", "same", "tame", layout="c"),
            "mean": T("n g", "same", "tame", layout="c"),
            "rstd": T("n g", "same", "positive", layout="c"),
            "weight": T("g*c", "same", layout="c"),
            "N": I("n", "n"),
            "C": I("g*c", "g*c"),
            "HxW": I("h", "h"),
            "group": I("g", "g"),
        },
    ),
    rule(
        "_weight_norm _weight_norm_interface",
        # torch reads g as contiguous, whatever its strides
        args={"v": T("n m"), "g": T("n 1", "same", "positive", layout="c"), "dim": C((0,))},
        dtypes="wide",
        wild=0,  # the norms get the shape of g, and norms beyond the slices of v stay uninitialized
    ),
    # torch does not check that v is contiguous, either
    rule("_weight_norm_interface", args={"v": T("n m", layout="c")}),
    rule(
        "_weight_norm_interface_backward",
        args={
            "grad_w": T("n m", layout="c"),
            "saved_v": T("n m", "same", layout="c"),
            "saved_g": T("n 1", "same", layout="c"),
            "saved_norms": T("n 1", "same", "positive", layout="c"),
            "dim": C((0,)),
        },
        dtypes="wide",
        wild=0,  # torch checks no shape, and some shapes crash it
    ),
    rule("cross_entropy_loss nll_loss nll_loss_nd nll_loss_forward nll_loss_backward", args=NLL, sizes={"n": (1, 3)}),
    rule(
        "cross_entropy_loss",
        args={
            "self": T("n? c h?"),
            "target": classes_or_probabilities,
            "reduction": I(0, 2),
            "ignore_index": C((-100, 0, 1)),
            "label_smoothing": C((0.0, 0.2)),
        },
    ),
    rule("nll_loss_backward", args={"grad_output": T(""), "self": T("n c", "same"), "reduction": I(1, 2)}),
    rule(
        "nll_loss2d*",
        args={**NLL, "self": T("n c h w"), "target": T("n h w", "int64", (0, "c-1"))},
        sizes={"h": (1, 3), "w": (1, 3)},
    ),
    rule("nll_loss2d_backward", args={"grad_output": T(""), "self": T("n c h w", "same"), "reduction": I(1, 2)}),
    rule(
        "binary_cross_entropy binary_cross_entropy_backward",
        args={"self": T("any", "main", "unit"), "target": T("like", "same", "unit"), "weight": T("like", "same")},
    ),
    rule("binary_cross_entropy_backward", args={"grad_output": T("any"), "self": T("like", "same", "unit")}),
    rule(
        "binary_cross_entropy_with_logits mse_loss l1_loss huber_loss smooth_l1_loss soft_margin_loss* kl_div "
        "poisson_nll_loss mse_loss_backward "
        "huber_loss_backward smooth_l1_loss_backward",
        args={"target": T("like", "same"), "weight": T("like", "same"), "pos_weight": T("like", "same")},
    ),
    rule(
        "mse_loss_backward huber_loss_backward smooth_l1_loss_backward soft_margin_loss_backward",
        args={"grad_output": T("any"), "self": T("like", "same")},
    ),
    rule("margin_ranking_loss", args={"input1": T("n"), "input2": T("n", "same"), "target": T("n", "same")}),
    rule(
        "cosine_embedding_loss",
        args={"input1": T("n c"), "input2": T("n c", "same"), "target": T("n", "int64", (-1, 1))},
    ),
    rule(
        "triplet_margin_loss",
        args={"anchor": T("n c"), "positive": T("n c", "same"), "negative": T("n c", "same"), "p": C((2.0, 1.0))},
    ),
    rule(
        "pairwise_distance cosine_similarity",
        args={"x1": T("n c"), "x2": T("n c", "same"), "p": C((2.0, 1.0)), "dim": C((1, -1))},
    ),
    # torch's integer vector code divides by beta as an integer: a beta below 1 is then a division by zero.
    rule("smooth_l1_loss_backward", dtypes="float", args={"self": T("bcast", "float"), "target": T("bcast", "float")}),
    rule("hinge_embedding_loss", args={"target": T("like", "same")}),
)


# ---------------------------------------------------------------- more losses, and optimisers

MARGIN = {
    "self": T("n c"),
    "target": T("n", "int64", (0, "c-1")),
    "p": N((1, 2)),
    "margin": C((1, 0.5)),
    "weight": T("c", "same"),
}
# Arrays are contiguous: torch's fused loops treat each array as contiguous, and write beyond an expanded one.
_LISTS = {
    k: Ts("3 2", "same", "positive", count=2, layout="c")
    for k in ("self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "state_sums", "momentum_buffer_list")
}

MORE_LOSSES_AND_OPTIMISERS = (
    rule("multi_margin_loss", args=MARGIN, dtypes="wide"),
    rule(
        "multi_margin_loss_backward",
        args={**MARGIN, "grad_output": T(""), "self": T("n c", "same"), "reduction": I(1, 2)},
        dtypes="wide",
    ),
    rule(
        "multilabel_margin_loss multilabel_margin_loss_forward",
        args={"self": T("n c"), "target": T("n c", "int64", (-1, "c-1"))},
        dtypes="wide",
        wild_values=False,
    ),
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
    ),
    rule(
        "_fused_*",
        args={
            **_LISTS,
            "state_steps": Ts("", "float32", "positive", count=2, layout="c"),
            "lr": N((0.1, 0.01, 0.0)),
            "lr_decay": N((0.0, 0.1)),
            "weight_decay": N((0.0, 0.1, -0.5)),
            "eps": C((1e-8,)),
            "beta1": N((0.9, 0.5, 0.0)),
            "beta2": N((0.99, 0.5, 0.0)),
            "grad_scale": lambda c: c.array(T("", "float32", "positive")) if c.chance(30) else None,
            "found_inf": lambda c: c.array(T("", "float32", "unit")) if c.chance(30) else None,
            "momentum": C((0.0, 0.9)),
            "dampening": C((0.0, 0.1)),
        },
        dtypes="wide",
        mixed=0,
        wild=0,
    ),
    rule(
        "_fused_sgd*",
        args={
            "momentum_buffer_list": lambda c: [
                c.array(T("3 2", "same", "positive", layout="c")) for _ in c.held["self"] * c.size("buffers")
            ],
            "momentum": lambda c: 0.9 * c.size("buffers"),
            "nesterov": lambda c: bool(c.size("buffers")) and c.chance(50),
            "dampening": lambda c: 0.0 if c.chance(60) else 0.1,
        },
        sizes={"buffers": (0, 1)},
    ),
    rule("_fused_rms_norm", args={"eps": C((None, 1e-5, 0.0))}, wild=12),
    rule("_fused_*.tensor_lr", args={"lr": T("", "float32", "positive")}),
    rule("_fused_adagrad.tensor_lr", always=frozenset(["found_inf"])),
    rule(
        "_amp_foreach_non_finite_check_and_unscale",
        args={"found_inf": T("1", "float32", "unit"), "inv_scale": T("1", "float32", "positive")},
        dtypes="float",
    ),
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
    ),
    rule(
        "_rowwise_prune",
        args={"weight": T("n m"), "mask": T("n", "bool"), "compressed_indices_dtype": lambda c: c.named("int64")},
        dtypes="float",
    ),
    rule(
        "*max_pool?d*_backward native_batch_norm_backward batch_norm_backward _native_batch_norm_legit.no_stats",
        wild_values=False,
        wild=0,
    ),
    rule(
        "native_batch_norm_backward batch_norm_backward",
        args={
            **STATISTICS,
            # For the largest numbers the order of multiplications decides whether they overflow.
            "weight": T("c", "same", "tame", always=True),
        },
        sizes={"training": (0, 1)},
    ),
    # For a channel of equal numbers only the rounding error of its mean remains, which is zero only for small numbers.
    rule("_native_batch_norm_legit.no_stats", args={"training": C((True,)), "input": T("n c h?", values="tame")}),
    rule("bilinear", sizes={"k": (1, 3), "m": (1, 3)}),
)

ROWS = (*NORMS_AND_LOSSES, *MORE_LOSSES_AND_OPTIMISERS)
