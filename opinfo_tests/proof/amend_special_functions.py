"""Amendments for the catalogue's chapter of special functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

from .amend_promotion import all_operands, operands
from .explain_disagreements import amends, expects, refuse
from .natural_call import NaturalCall
from .torch_promotion import cast, promoted


@amends("erfinv-of-negative-zero", stage=5)
def keep_zeros(call: NaturalCall) -> Any:
    x = call.first
    call.after.append(lambda out: np.where(x == 0, x.astype(out.dtype), out))
    return True


@amends("lgamma-of-minus-infinity", stage=5)
def return_infinity_at_both_ends(call: NaturalCall) -> Any:
    call.after.append(lambda out: np.where(np.isinf(call.first), np.asarray(np.inf, out.dtype), out))
    return True


@amends("zeta-of-infinity", stage=5)
def fix_zeta_at_infinity(call: NaturalCall) -> Any:
    """Return nan for zeta at +inf, and infinity at -inf, which torch treats as a pole.

    polygamma of order n calls zeta with n + 1.
    """
    x, q = (call.given[k] for k in (("self", "other") if "other" in call.given else ("n", "self")))
    if "n" in call.given and x < 2:
        return False

    def ended(out: Any) -> Any:
        out = np.where(q == np.inf, np.asarray(np.nan, out.dtype), out)
        return np.where((q == -np.inf) & (x > 1), np.copysign(np.asarray(np.inf, out.dtype), out), out)

    call.after.append(ended)
    return True


@amends("igamma-of-nan", stage=5)
def check_zero_before_nan(call: NaturalCall) -> Any:
    a, x = call.given["self"], call.given["other"]
    upper = call.f.__name__ == "gammaincc"

    def looked(out: Any) -> Any:
        out = np.where(x == 0, np.asarray(float(upper), out.dtype), out)
        out = np.where(a == 0, np.where(x > 0, np.asarray(float(not upper), out.dtype), out), out)
        return np.where(np.isinf(x) & ~np.isinf(a) & (x > 0), np.asarray(float(not upper), out.dtype), out)

    call.after.append(looked)
    return True


@expects("scipy-rounding", "rounding")
def may_round_differently(call: NaturalCall) -> Any:
    return True


@amends("scipy-in-double", stage=5)
def keep_promoted_dtype(call: NaturalCall) -> Any:
    """Convert Python numbers to the promoted dtype if that is float or complex, and the result, too.

    A number that is too large for the dtype becomes infinite.
    """
    dtype = promoted(all_operands(call))
    if dtype.kind in "fc":
        call.given |= {n: cast(x, dtype) for n, x in operands(call).items() if isinstance(x, (int, float))}
    call.after.append(lambda out: np.asarray(out).astype(dtype) if dtype.kind in "fc" else out)
    return True


@amends("ndtr-by-erf", stage=4)
def compute_by_erf(call: NaturalCall) -> Any:
    call.f = lambda x: (1 + scipy.special.erf(x * x.dtype.type(np.sqrt(0.5)))) * x.dtype.type(0.5)
    return True


@expects("coarse-special", "coarse", "rounding")
def may_be_coarse(call: NaturalCall) -> Any:
    return True


@amends("multigammaln-domain", stage=4)
def skip_domain_check(call: NaturalCall) -> Any:
    p = call.given["p"]
    if p < 1:
        return refuse(call)
    constant = p * (p - 1) / 4 * np.log(np.pi)
    call.f = lambda x, p: constant + sum(scipy.special.gammaln(x - i / 2) for i in range(p))
    return True


@amends("polygamma-order", stage=0)
def refuse_negative_order(call: NaturalCall) -> Any:
    return refuse(call) if call.given["n"] < 0 else False


@expects("trigamma-poles", "not finite", "value")
def is_at_pole(call: NaturalCall) -> Any:
    x = call.first
    return call.given["n"] == 1 and bool(((x < 0) & (x == np.floor(x))).any())


@amends("bessel-of-least", stage=5)
def fix_smallest_subnormal(call: NaturalCall) -> Any:
    x, end = call.first, np.inf if call.f.__name__ == "k0e" else np.nan
    if x.dtype != np.float32:
        return False
    call.after.append(lambda out: np.where((x > 0) & (x / 2 == 0), np.float32(end), out))
    return True


@amends("sigmoid-of-complex", stage=4)
def compute_logistic_function(call: NaturalCall) -> Any:
    if call.first.dtype.kind != "c":
        return False
    call.f = lambda x: 1 / (1 + np.exp(-x))
    return True


@amends("airy-of-large", stage=5)
def return_zero_for_large(call: NaturalCall) -> Any:
    x = call.first
    call.after.append(lambda out: np.where((x > 1e6) & (x < np.inf), np.zeros((), out.dtype), out))
    return True


@expects("scipy-in-double", "rounding")
def is_half_precision(call: NaturalCall) -> Any:
    return call.first.dtype == np.float16
