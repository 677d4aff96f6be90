"""Constraints of families, elementwise operators, reductions, scans and sorting.

See `opinfo_tests.generate.constraints.constraint`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .constraint import C, I, N, Ordered, T, Ts, rule, size_of_dim

# ---------------------------------------------------------------- families

FLOAT = {"dtypes": "float", "mixed": 3}


def beyond(shape: str) -> Callable:
    """Return a function that generates arrays, some of which have values far larger than usual."""
    return lambda c: c.array(T(shape, values=(1, 300)) if c.chance(30) else T(shape))


def sought(call: Any) -> Any:
    """Generate the values to search for: in any shape, or with the sorted sequence's number of rows."""
    *rows, _ = call.shape
    return call.array(T(" ".join(map(str, [*rows, call.size("k")])) if rows else "any", "same"))


def sorter(call: Any) -> Any:
    """Generate a ``sorter``, which is not always a permutation, or None."""
    return call.array(T("like", "int64", (0, "max(shape[-1]-1,0)"))) if call.chance(50) else None


FAMILIES = (
    rule("family:activation family:backward.activation family:special family:softmax", **FLOAT),
    rule("family:normalization family:batchnorm family:backward.normalization family:vectornorm", **FLOAT),
    rule("family:loss family:nll family:pool family:pool_adaptive family:backward.pool", **FLOAT),
    rule("family:dropout family:sampling family:random", dtypes="float", mixed=3, values="tame"),
    rule("family:bitwise", dtypes="bits", mixed=30),
    rule("family:conv family:backward.conv", dtypes="float", mixed=0, wild=15),
    rule("gcd", dtypes="int"),
    # The divisor may wrap to -1. If torch then divides the smallest integer by it, the process dies of SIGFPE.
    rule("lcm", dtypes="int", args={"self": T(values="tame")}),
    rule("_foreach_*", mixed=5),
    rule("complex polar", dtypes="wide", mixed=2),
    rule("view_as_complex", dtypes="wide", args={"self": T("n m 2", layout="c")}, sizes={"n": (1, 4), "m": (1, 4)}),
    rule("view_as_real", dtypes="complex"),
    rule("angle real", dtypes="inexact"),
    rule("imag _conj", dtypes="complex"),
    rule("_neg_view", dtypes="inexact", wild=0),
    rule("_is_all_true _is_any_true", args={"self": T("any", "bool")}),
)


# ---------------------------------------------------------------- elementwise


ELEMENTWISE = (
    rule(
        "ge gt le lt greater greater_equal less less_equal maximum minimum max min fmax fmin fmod remainder "
        "floor_divide atan2 arctan2 copysign "
        "clamp clamp_max clamp_min clip heaviside sort argsort topk amax amin aminmax argmax argmin ceil floor round trunc",
        dtypes="ordered",
    ),
    # torch's gcd of the smallest integer may be -1, and its lcm divides by the gcd: -2**63 and 7 cause a SIGFPE.
    rule("lcm", values="tame"),
    rule("addcdiv _foreach_addcdiv*", dtypes="inexact"),
    rule("logaddexp logaddexp2 hypot nextafter atan2 arctan2 frac", dtypes="float"),
    rule("lerp", dtypes="inexact", args={"end": T("bcast", "same"), "weight": T("bcast", "same")}),
    # For a weight of 1, the sign of zero differs between torch's vector code and its scalar code, which computes the
    # remainders of rows and strided arrays.
    rule("lerp.Scalar", args={"weight": N((0.5, 0.0, 0.9, 2, 0.3))}),
    rule("_foreach_lerp.Scalar", args={"weight": N((0.5, 0.0, 0.9, 2)), "tensors1": Ts("like", count="len(self)")}),
    rule(
        "_foreach_lerp.ScalarList",
        args={"weight": lambda c: [0.5] * c.list_length(), "tensors1": Ts("like", count="len(self)")},
    ),
    rule(
        "_foreach_lerp.List", args={"weights": Ts("like", count="len(self)"), "tensors1": Ts("like", count="len(self)")}
    ),
    rule("pow.Scalar", values="any"),
    rule(
        "threshold hardtanh elu celu leaky_relu softplus hardshrink softshrink",
        args={
            "lambd": C((0.5, 0, 1, 0.25)),
            "alpha": C((1, 0.5, 2)),
            "beta": C((1, 0.5, 2)),
            "negative_slope": C((0.01, 0.5, 0)),
        },
    ),
    rule("glu glu_backward", sizes={"*": (2, 2)}, args={"self": T("2*n 2*m 2*c", "main"), "dim": I(-3, 2)}),
    rule("glu_backward", args={"grad_output": T("2*n 2*m c", "same"), "dim": C((-1, 2))}),
    rule("glu_jvp", args={"glu": T("n m"), "x": T("n 2*m", "same"), "dx": T("n 2*m", "same"), "dim": C((-1, 1))}),
    rule("prelu", args={"self": T("n c m?"), "weight": T("c", "same")}),
    rule("_prelu_kernel _prelu_kernel_backward", args={"weight": T("bcast", "same")}),
    rule("polygamma", args={"n": I(0, 4)}),
    rule("logit", args={"eps": C((1e-6, 0.1, 0.0, 0.6, -1.0))}),
    rule("mvlgamma special_multigammaln", values="positive", args={"p": I(1, 5)}),
    rule("special_*polynomial*", args={"n": T("bcast", "real", (-1, 6))}, dtypes="float", mixed=3),
    rule("special_*polynomial*.n_scalar", args={"n": N((0, 1, 2, 3, 5))}),
    # For NaN these loops end before their first step, and torch returns uninitialized values.
    rule(
        "special_*chebyshev_polynomial_u* special_*chebyshev_polynomial_w* special_shifted_chebyshev_polynomial_t* "
        "special_laguerre_polynomial_l* special_legendre_polynomial_p*",
        values="tame",
    ),
    # For NaN, torch's vector code returns 0, but its scalar loop returns the gradient.
    rule("hardshrink_backward softshrink_backward", args={"self": T("bcast", values="tame")}),
    rule("nextafter", mixed=5, dtypes="float"),
    rule("ldexp heaviside hypot", mixed=8),
    rule("ldexp", args={"other": lambda c: c.array(T("bcast", "int" if c.chance(50) else "main"))}),
    rule("igamma igammac special_gammainc special_gammaincc", args={"self": beyond("any"), "other": beyond("bcast")}),
    rule("fill.Tensor", args={"value": T("")}),
    rule("clamp clip clamp.Tensor clip.Tensor", always=frozenset(["min"])),
    rule("where.self", args={"condition": T("any", "bool"), "self": T("bcast"), "other": T("bcast")}),
    rule(
        "where where.Scalar* masked_fill* masked_select",
        args={"condition": T("any", "bool"), "mask": T("bcast", "bool")},
    ),
    rule("where.ScalarOther where.ScalarSelf", args={"condition": T("any", "bool")}),
    rule("dist", args={"other": T("bcast", "same")}),
    rule(
        "_foreach_*.List _foreach_copy",
        args={
            "other": Ts("like", count="len(self)"),
            "src": Ts("like", count="len(self)"),
            "exponent": Ts("like", count="len(self)"),
            "tensors1": Ts("like", count="len(self)"),
        },
    ),
    rule("_foreach_copy", unchecked=frozenset(["self", "src"])),
    rule("_foreach_*.Tensor", args={"other": T("")}),
    rule("_foreach_addc*", args={"tensor1": Ts("like", count="len(self)"), "tensor2": Ts("like", count="len(self)")}),
    rule("_foreach_addc*.Tensor", args={"scalars": T("len(self)", "float32"), "self": Ts("any", count=2)}),
    rule("_foreach_*", args={"self": Ts("like")}),
    rule("_foreach_pow.ScalarAndTensor", args={"self": N(), "exponent": Ts("any")}),
    rule("_foreach_mm", args={"self": Ts("n k", count=2), "mat2": Ts("k m", "same", count=2)}, dtypes="float"),
)


# ---------------------------------------------------------------- reductions, scans, sorting


REDUCTIONS_SCANS_SORTING = (
    rule(
        "*norm*",
        args={"p": N((2, 1, 0, 3, 0.5, float("inf"))), "ord": N((2, 1, 0, 3, 0.5, float("inf"), float("-inf")))},
    ),
    rule("renorm", args={"self": T("n m c"), "p": N((2, 1, 0.5)), "maxnorm": N((1, 0.5, 2))}),
    rule("norm_except_dim", args={"v": T("n m c"), "pow": I(1, 3), "dim": I(-1, 2)}),
    rule("topk", args={"k": lambda call: call.integer(0, size_of_dim(call))}),
    rule("kthvalue", args={"k": lambda call: call.integer(1, max(1, size_of_dim(call)))}),
    rule("mode median.dim nanmedian.dim kthvalue topk sort argsort", mixed=0),
    rule("mode", values="tame"),  # torch's comparison is not a consistent order for NaN
    rule("bincount", args={"self": T("n", "int", (0, 5)), "weights": T("n")}),
    rule("histc", dtypes="float", args={"bins": I(1, 5)}),
    rule("bucketize.Tensor", args={"boundaries": Ordered(T("m", "same"))}),
    rule("bucketize.Scalar", args={"boundaries": Ordered(T("m", "main"))}),
    rule("searchsorted.Tensor", args={"sorted_sequence": Ordered(T("n? m")), "self": sought, "sorter": sorter}),
    rule("searchsorted.Scalar", args={"sorted_sequence": Ordered(T("m")), "sorter": sorter}),
    rule("var* std* mean* nanmean logsumexp softmax* log_softmax* _softmax _log_softmax cumprod", dtypes="inexact"),
    rule(
        "_softmax _log_softmax",
        args={"half_to_float": C((False, False, False, True)), "dim": lambda c: c.dim()},
        dtypes="float",
    ),
    rule(
        "_softmax_backward_data _log_softmax_backward_data",
        args={
            "grad_output": T("any"),
            "output": T("like", "same"),
            "input_dtype": lambda c: c.named(c.held["grad_output"].dtype),
        },
    ),
    # torch does not compare the sizes of gradient and output, and reads beyond the smaller one.
    rule("_log_softmax_backward_data", wild=0),
    rule(
        "trapezoid* cumulative_trapezoid* trapz*",
        args={"y": T("n m"), "x": T("~n m", "same"), "dim": C((-1, 1))},
        dtypes="inexact",
    ),
    rule("diff", args={"n": I(0, 2)}),
    rule("quantile nanquantile", dtypes="wide", args={"q": T("m?", "same", "unit")}),
    rule("quantile.scalar nanquantile.scalar", args={"q": C((0.5, 0.0, 1.0, 0.3))}),
    rule("cov corrcoef", dtypes="inexact", args={"self": T("n? m"), "correction": I(0, 1)}),
)


ROWS = (*FAMILIES, *ELEMENTWISE, *REDUCTIONS_SCANS_SORTING)
