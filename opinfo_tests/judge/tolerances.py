"""Tolerances: how the results of each operator are compared, as data with reasons.

An operator without an entry gets the default: integers and booleans must be bit-equal; floating-point and complex
values must be within torch.testing's tolerance for their dtype, with an absolute part that shrinks with the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache

from ..case import Case, schemas
from ..namespaces import is_other
from ..schema_facts import bound, siblings

# The (rtol, atol) of torch.testing.assert_close, by the result's dtype. Only double precision is tighter, about the
# error of a sum of some thousand terms: with torch.testing's tolerance, results rounded to single precision would pass.
CLOSE = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-12, 1e-12),
    "complex32": (1e-3, 1e-5), "bcomplex32": (1.6e-2, 1e-5), "complex64": (1.3e-6, 1e-5), "complex128": (1e-12, 1e-12),
    "float8_e4m3fn": (0.0, 0.0), "float8_e4m3fnuz": (0.0, 0.0), "float8_e5m2": (0.0, 0.0),
    "float8_e5m2fnuz": (0.0, 0.0), "float8_e8m0fnu": (0.0, 0.0),
}  # fmt: skip


@dataclass(frozen=True)
class ToleranceRule:
    """How the values of an operator's results are compared.

    ``kind`` is one of: exact (bit-equal), ulp (within ``ulp`` units in the last place of the result's dtype), close
    (within torch.testing's tolerance), factors (satisfies the defining equations), ties (exact, or other indices that
    select equal values), uninitialised (only dtype and shape are compared), cast (bit-equal, except where a float does
    not fit the integer dtype, which is undefined in C).
    """

    kind: str
    reason: str
    ulp: int = 0
    zero_sign: bool = True
    double: float = 0.0  # rtol and atol in double precision, used if torch's own error exceeds `CLOSE`
    compared: int = 99  # number of results whose values are compared
    # the order of additions is not fixed: a result passes if it is as near to the exact one as torch's
    sums: bool = True
    # Ill-conditioned operators: an error passes if rounding the inputs differently would cause an equally large one.
    conditioned: bool = False
    # Half-precision results are rounded once: one that differs from torch's must be as near to the double precision
    # result.
    once: bool = False
    # torch's vector code and the scalar code for the remainder of a row round differently and give zeros different
    # signs: both results pass.
    beside: bool = False
    half: int = 0  # float16 elements may be off by so many ulp, because torch rounds more than once
    most: float = 0.0  # largest magnitude that the real and imaginary parts may have, even after rounding
    # torch's half-precision results are not the rounded exact results: a result that is much more accurate also passes.
    nearer: bool = False


ONCE = "one correctly rounded operation"
# torch calls std::sort, std::partial_sort and std::nth_element. On the CPU, up to 16 elements, equal values keep their
# order as in a stable sort; with more elements they don't, in any dtype. torch's documentation promises an order only
# for stable=True.
UNSTABLE = "which of equal values comes first is not promised"
DEFAULT = ToleranceRule("close", "rounding depends on the order of operations")
# With 40,000 terms torch's own error is up to 1e-12; an exact computation has 1e-15.
UPDATED = "a mean and a sum of squares are updated for each term, with a rounding each"
ADDED = "powers are added one after another, with a rounding each"

_MOVES = (
    "alias as_strided* cat stack hstack vstack dstack clone contiguous copy expand* permute transpose* t squeeze* "
    "unsqueeze view view_as view.dtype reshape* _reshape_alias _unsafe_view narrow* select.int select slice "
    "slice.Tensor select_scatter slice_scatter diagonal_scatter as_strided_scatter split* unsafe_split* chunk "
    "tensor_split* unbind* hsplit* vsplit* dsplit* movedim* moveaxis* swapaxes swapdims flip fliplr flipud roll "
    "rot90 repeat repeat_interleave* tile diag diagonal* diag_embed tril triu index.Tensor index_select gather "
    "take take_along_dim* masked_select masked_fill* masked_scatter where* index_fill* index_copy fill* full* "
    "zeros* ones* new_zeros new_ones new_full zero scalar_tensor eye* lift* detach broadcast_to broadcast_tensors "
    "meshgrid* atleast_* ravel flatten* unflatten* unfold unfold_copy constant_pad_nd pad_sequence pixel_shuffle "
    "pixel_unshuffle channel_shuffle block_diag column_stack row_stack combinations cartesian_prod real imag "
    "view_as_real* view_as_complex* conj _conj* conj_physical resolve_conj resolve_neg positive block_diag "
    "scatter.src scatter.value reflection_pad* replication_pad?d _pad_circular unique* _unique* sort* msort mode* "
    "median nanmedian* max min amax amin aminmax* max.* min.* cummax* cummin* argsort* argmax argmin nonzero* "
    "bucketize* searchsorted* embedding max_pool*d_with_indices adaptive_max_pool* to.* type_as isfinite* "
    "trapezoid_ fft_fftshift fft_ifftshift"
)
_ROUNDED_ONCE = (
    "add.Tensor add.Scalar sub.Tensor sub.Scalar subtract.* rsub* mul.* multiply.* divide.* div.* floor_divide* "
    "neg negative abs absolute floor ceil trunc round "
    "frac sign sgn signbit copysign* nextafter maximum minimum fmax fmin clamp* clip* relu hardtanh threshold threshold_backward "
    "nan_to_num fmod* heaviside frexp* bitwise_* logical_* true_divide* remainder*"
)
_RANDOM = (
    "rand rand_like* rand.* randint* randperm* bernoulli* uniform* random* multinomial* poisson poisson.* binomial*"
)
_RANDOM_CLOSE = (
    "randn* normal* exponential* geometric* cauchy* log_normal* dropout* native_dropout* alpha_dropout* feature_* "
    "rrelu* _fused_dropout* _standard_gamma _standard_gamma.* _sample_dirichlet*"
)


def rows(names: str, rule: ToleranceRule) -> dict[str, ToleranceRule]:
    return dict.fromkeys(names.split(), rule)


# torch's mm and bmm of the same matrices give zeros of different sign: depending on the shapes, the BLAS library starts
# a sum with zero or with the first product.
SUMS = "sums of products in the order of a BLAS, whose zeros have the sign of its shapes"
_PRODUCTS = (
    "mm _sparse_mm _sparse_addmm bmm mv dot vdot inner addmm _addmm_activation addmv addbmm baddbmm matmul linalg_matmul linear einsum "
    "tensordot chain_matmul linalg_multi_dot matrix_power linalg_matrix_power cov convolution* conv?d* "
    "conv_transpose* _convolution* linalg_cholesky* cholesky* linalg_solve* _linalg_solve_ex linalg_inv* inverse "
    "_cholesky_solve_helper linalg_ldl_* linalg_tensorinv linalg_pinv* pinverse linalg_lu* _lu_with_info "
    "_linalg_det* _linalg_slogdet* linalg_slogdet* slogdet logdet linalg_det* det lu_solve triangular_solve "
    "linalg_lstsq linalg_householder_product orgqr ormqr "
    "_weight_int8pack_mm _weight_int8pack_mm.*"
)

# For the same real signal torch's rfft, rfft2 (as a one-row matrix) and fft (as complex numbers) give zero imaginary
# parts different signs, or a rounding error instead of zero: the first two at 16 points, the third at most sizes. For
# the few sizes here, and for complex input, the signs follow a rule that a kernel can implement.
FEW_POINTS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 14})
ONE_SIDED = "one side of a real signal's spectrum, whose zeros have the sign of the way that MKL goes"
_ONE_SIDED = "_fft_r2c fft_r2c fft_fft fft_ifft fft_rfft fft_rfft[2n] fft_ihfft fft_ihfft[2n]"

RULES: dict[str, ToleranceRule] = {
    **rows(_MOVES, ToleranceRule("exact", "moves or picks values, computes none")),
    **rows(_ROUNDED_ONCE, ToleranceRule("exact", ONCE)),
    **rows(_RANDOM, ToleranceRule("exact", "the same Mersenne Twister words give the same values")),
    **rows(_RANDOM_CLOSE, ToleranceRule("close", "the same words, through logarithms and sines that differ in the last place")),
    **rows(
        "_make_dep_token empty empty.* empty_like* empty_strided* empty_permuted* new_empty* resize*",
        ToleranceRule("uninitialised", "the memory is not written"),
    ),
    **rows("fbgemm_pack_*", ToleranceRule("uninitialised", "a layout of FBGEMM's own with addresses and padding in it")),
    **rows(
        "_ctc_loss _ctc_loss.*",
        ToleranceRule("close", "a sum of exponentials; the second result is only written within each target", compared=1),
    ),
    **rows("_to_copy copy copy.* _to_dense", ToleranceRule("cast", "a conversion of values")),
    **rows(
        "sqrt reciprocal rsqrt arccos arcsin arctan arccosh arcsinh arctanh arctan2 special_exp2 special_expm1 "
          "special_log1p special_erf special_erfc special_expit exp exp2 expm1 log log2 log10 log1p sin cos tan "
          "sinh cosh tanh asin acos atan asinh "
        "acosh atanh atan2 hypot erf erfc sigmoid",
        ToleranceRule("ulp", "vector polynomials against libm", ulp=4),
    ),
    **rows(
        "_adaptive_avg_pool?d adaptive_avg_pool?d avg_pool?d",
        ToleranceRule("close", "half types are added in single precision and rounded once", once=True),
    ),
    **rows(
        "_fused_sgd*",
        ToleranceRule("close", "torch's vectors of half types leave parameters and momentum buffers as they were", nearer=True),
    ),
    **rows("col2im unfold_backward", ToleranceRule("exact", "one after the other, each sum rounded")),
    **rows("cumsum", ToleranceRule("ulp", "one after the other, float32 in double: rounded once", ulp=1)),
    **rows(_PRODUCTS, ToleranceRule("close", SUMS, zero_sign=False, conditioned=True)),
    **rows("_scaled_dot_product_flash_attention_for_cpu_backward", ToleranceRule("close", SUMS, zero_sign=False)),
    **rows("thnn_conv2d _slow_conv2d* slow_conv* _foreach_mm", ToleranceRule("close", SUMS, zero_sign=False, conditioned=True)),
    **rows("linalg_cond linalg_matrix_rank matrix_rank", ToleranceRule("close",
      "singular values, the smallest of which may be rounding", conditioned=True)),
    **rows("_transformer_encoder_layer_fwd", ToleranceRule("close", "norms of numbers that may all but agree", conditioned=True)),
    **rows("linalg_matrix_sqrth", ToleranceRule("close", SUMS, zero_sign=False, conditioned=True)),
    **rows("lerp", ToleranceRule("close", "from the nearer end, whose zeros have another sign in vectors", zero_sign=False)),
    **rows("_upsample_bicubic2d_aa native_group_norm_backward",
      ToleranceRule("close", "sums in vectors, whose zeros have the sign of what is beside them", zero_sign=False)),
    **rows("_unique _unique2", ToleranceRule("exact", "picks values; which of -0 and 0 stands for both is not promised", zero_sign=False)),
    **rows(_ONE_SIDED, ToleranceRule("close", ONE_SIDED, zero_sign=False)),
    **rows("stft stft.center", ToleranceRule("close", "of many windows, " + ONE_SIDED, zero_sign=False)),
    **rows(
        "amax amin aminmax _aminmax _foreach_max min max maximum minimum clamp_min.Tensor clamp_max.Tensor clamp.Tensor clip.Tensor",
        ToleranceRule("exact", "picks values; which of -0 and 0 depends on the width of vectors", zero_sign=False),
    ),
    **rows(
        "igamma igammac special_gammainc special_gammaincc",
        ToleranceRule("close", "torch's series for 20 < a < 300 is wrong by up to 4.2e-10, of which SciPy has 4e-16", double=1e-9),
    ),
    **rows(
        "linalg_matrix_exp matrix_exp matrix_exp_backward",
        ToleranceRule("close", "squared again and again, by polynomials of torch's degrees or SciPy's", zero_sign=False, double=1e-10),
    ),
    **rows(
        "upsample_linear1d upsample_bilinear2d upsample_trilinear3d",
        ToleranceRule("close",
          "means of two neighbours along each dimension, with weights that half types round where torch's loop does",
          zero_sign=False, sums=False),
    ),
    **rows("var std var_mean std_mean", ToleranceRule("close", UPDATED)),
    **rows("linalg__powsum* _foreach_powsum*", ToleranceRule("close", ADDED)),
    **rows("mvlgamma special_multigammaln", ToleranceRule("close", "logarithms of sums that half types round", sums=False)),
    **rows(
        "corrcoef",
        ToleranceRule("close", SUMS + "; clipped to [-1, 1]", zero_sign=False, conditioned=True, most=1.0),
    ),
    **rows("tanh_backward",
      ToleranceRule("close", "products of complex numbers, whose zeros have other signs beside torch's vectors",
      zero_sign=False)),
    **rows("_euclidean_dist", ToleranceRule("close", "differences of squares that cancel", zero_sign=False, conditioned=True)),
    **rows("gelu", ToleranceRule("close", "torch's error function in vectors, of which one is nearly all of the tail", half=4)),
    **rows("hardswish", ToleranceRule("close", "products of one element, which overflow before they are divided", sums=False)),
    **rows("index_add", ToleranceRule("close", "slices added one after another, or all before half types round", sums=False)),
    **rows("sort argsort msort topk kthvalue mode median nanmedian", ToleranceRule("ties", UNSTABLE)),
    **rows(
        "_linalg_svd* linalg_svd linalg_svd.* svd _linalg_eigh* linalg_eigh* linalg_eig linalg_eig.* "
          "linalg_eigvals _linalg_eigvals linalg_qr "
        "linalg_qr.* qr geqrf linalg_polar linalg_polar.*",
        ToleranceRule("factors", "factors are fixed up to sign, phase or order"),
    ),
}  # fmt: skip


@cache
def rule_for(op: str) -> ToleranceRule:
    """Return the rule of an overload, looked up by full name, then base name, then pattern.

    In-place and ``out=`` overloads have the rule of the functional one. Overloads of other libraries have the default.
    """
    if is_other(op):
        return DEFAULT
    declared = schemas().get(op)
    if declared is not None and declared.is_out:
        functional = [n for n in siblings()[op] if not schemas()[n].mutates]
        if functional:
            return rule_for(functional[0])
    _, _, name = op.partition("::")
    base, dot, overload = name.partition(".")
    plain = base[:-1] if base.endswith("_") and not base.endswith("__") else base
    plain = plain.removeprefix("_foreach_")
    keys = [name, f"{plain}{dot}{overload}", plain]
    if base.startswith("_foreach_"):
        keys.append(f"{plain}.Tensor")
    for key in keys:
        if key in RULES:
            return RULES[key]
    for pattern, rule in RULES.items():
        if any(fnmatchcase(key, pattern) for key in keys[1:]):
            return rule
    return DEFAULT


def has_complex_number(case: Case) -> bool:
    """Return whether an argument, or an element of a list argument, is a complex number."""
    given = [*case.args, *case.kwargs.values()]
    return any(isinstance(x, complex) for arg in given for x in (arg if isinstance(arg, (list, tuple)) else (arg,)))


def rule_of(case: Case) -> ToleranceRule:
    """Return the rule of one call: that of its operator, unless the arguments require another."""
    rule = rule_for(case.op)
    if rule.kind == "close" and not rule.half and "pointwise" in schemas()[case.op].tags:
        rule = replace(rule, once=True)
    if case.op in ("aten::resize", "aten::resize_as") and keeps(case):
        return ToleranceRule("exact", "the elements that a smaller shape keeps, as they lie in memory")
    if rule.kind == "ties" and case.kwargs.get("stable"):
        return ToleranceRule("exact", "a stable sort keeps the order of equal values")
    if rule.reason == ONE_SIDED and (case.dtype.startswith("complex") or points(case) in FEW_POINTS):
        return DEFAULT
    if rule.reason in (UPDATED, ADDED):
        terms = max((math.prod(a.shape) for a in case.arrays()), default=0)
        return replace(rule, double=max(CLOSE["float64"][0], terms * 2.0**-52))
    if rule.reason == ONCE:
        if any(a.dtype.startswith("complex") for a in case.arrays()) or has_complex_number(case):
            return ToleranceRule(
                "close", "complex arithmetic is several rounded operations, some of them fused", beside=True
            )
        if case.kwargs.get("alpha", 1) != 1 or (
            len(case.args) > 2 and case.op.startswith(("aten::add", "aten::sub", "aten::rsub"))
        ):
            return ToleranceRule(
                "close", "torch multiplies by alpha in one rounding or two, as the layout falls", zero_sign=False
            )
    return rule


def keeps(case: Case) -> bool:
    """Return whether the new shape has at most as many elements as the resized tensor."""
    given = bound(case)
    shape = given["size"] if "size" in given else given["the_template"].shape
    return min(shape, default=1) >= 0 and math.prod(shape) <= math.prod(given["self"].shape)


def points(case: Case) -> int:
    """Return the length of a Fourier transform along the last dimension that it covers."""
    given = bound(case)
    dim, n = given["dim"], given.get("n", given.get("s"))
    last = dim if isinstance(dim, int) else dim[-1] if dim else -1
    size = n[-1] if isinstance(n, (list, tuple)) and n else n
    shape = given["self"].shape
    return size if isinstance(size, int) and size > 0 else shape[last] if shape else 1
