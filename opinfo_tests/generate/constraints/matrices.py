"""Constraints of matrices; see `opinfo_tests.generate.constraints.constraint`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .constraint import C, I, N, T, Ts, rule


def factor(matrix: str) -> Callable:
    """Return a function that generates a vector, or a matrix whose batch dimensions are the call's or broadcast."""
    return lambda c: c.array(
        T(c.choose([f"* {matrix}"] * 5 + ["k", matrix, f"~c {matrix}", f"~n ~c {matrix}"]), "same")
    )


# ---------------------------------------------------------------- defaults


DEFAULTS = (
    rule(
        "linalg_* _linalg_* svd qr geqrf orgqr ormqr lu_* nuclear_norm pinverse cholesky* matrix_exp _cholesky* inverse det logdet slogdet "
        "triangular_solve matrix_power",
        dtypes="lapack",
        mixed=2,
        values="tame",
    ),
    rule(
        "mm bmm addmm* addbmm baddbmm mv addmv addr dot vdot inner ger outer matmul linear bilinear "
        "linalg_matmul einsum chain_matmul linalg_multi_dot "
        "tensordot kron cross linalg_cross _addmm_activation",
        dtypes="inexact",
        mixed=3,
    ),
    rule("linalg_vecdot linalg_vector_norm linalg_norm linalg_matrix_norm", dtypes="inexact"),
    rule("linalg_vector_norm linalg__powsum", values="any"),  # torch does not use LAPACK for vectors
)


# ---------------------------------------------------------------- matrices


# Pairs of dimensions to contract; the last two are valid only if the two sizes are equal.
CONTRACTED: tuple[tuple[list[int], list[int]], ...] = (
    ([1], [0]),
    ([1, 2], [0, 1]),
    ([2, 1], [1, 0]),
    ([-1, 1], [1, 0]),
    ([2], [-2]),
    ([], []),
    ([1, 2], [1, 0]),
    ([2], [0]),
)


def contracted(call: Any) -> tuple[list[int], list[int]]:
    """Return the dimensions of a tensor contraction, which are chosen once for each call."""
    if "contracted" not in call.once:
        call.once["contracted"] = call.choose(CONTRACTED)
    return call.once["contracted"]


def sided(first: str, second: str) -> Callable:
    """Return a function that generates a right-hand side: n by m if ``left``, else m by n."""
    return lambda c: c.array(T(f"* {first} {second}" if c.size("left") else f"* {second} {first}", "same"))


def symmetric(call: Any) -> Any:
    """Generate a square matrix if ``hermitian``, else any matrix."""
    return call.array(T("* n n", "main", "square") if call.size("hermitian") else T("* n m"))


def wider(call: Any) -> Any:
    kind = "complex" if call.dtype.startswith("complex") != call.chance(10) else "float"
    return call.named({"complex": "complex128", "float": "float64"}[kind])


LEFT, LEFT_SIZES = {"left": lambda c: bool(c.size("left"))}, {"left": (0, 1)}
SQUARE = {n: T("* n n", "main", "square") for n in ("self", "A", "input", "LU")}

MATRICES = (
    rule("mm", args={"self": T("n k"), "mat2": T("k m", "same")}),
    rule("bmm", args={"self": T("n c k"), "mat2": T("n k m", "same")}),
    rule("addmm*", args={"self": T("~n ~m"), "mat1": T("n k", "same"), "mat2": T("k m", "same")}),
    rule("addbmm", args={"self": T("~c ~m"), "batch1": T("n c k", "same"), "batch2": T("n k m", "same")}),
    rule("baddbmm", args={"self": T("~n ~c ~m"), "batch1": T("n c k", "same"), "batch2": T("n k m", "same")}),
    rule("mv", args={"self": T("n k"), "vec": T("k", "same")}),
    # For a matrix without columns torch returns beta * self in the shape of self instead of the product's shape.
    rule("addmv", args={"self": T("~n"), "mat": T("n k", "same"), "vec": T("k", "same")}, sizes={"k": (1, 4)}),
    rule("addr", args={"self": T("~n ~m"), "vec1": T("n", "same"), "vec2": T("m", "same")}),
    rule("dot vdot inner", args={"self": T("k"), "other": T("k", "same"), "tensor": T("k", "same")}),
    rule("ger outer", args={"self": T("n"), "vec2": T("m", "same")}),
    rule("matmul linalg_matmul", args={"self": factor("n k"), "other": factor("k m")}),
    rule("linear", args={"input": T("* n k"), "weight": T("m k", "same"), "bias": T("m", "same")}, dtypes="float"),
    rule(
        "bilinear",
        args={
            "input1": T("n k", "same"),
            "input2": T("n m", "same"),
            "weight": T("c k m", "same"),
            "bias": T("c", "same"),
        },
        dtypes="float",
    ),
    rule("kron", args={"other": T("any", "same")}, most_dims=3),
    rule("cross linalg_cross", args={"self": T("n 3"), "other": T("n 3", "same"), "dim": C((-1, 1))}),
    rule(
        "tensordot",
        args={
            "self": T("n k c"),
            "other": T("k c m", "same"),
            "dims_self": lambda call: contracted(call)[0],
            "dims_other": lambda call: contracted(call)[1],
        },
        sizes={"k": (0, 3), "c": (1, 3)},
    ),
    rule(
        "cdist _cdist_forward",
        args={
            "x1": T("* n k"),
            "x2": T("* m k", "same"),
            "p": C((2.0, 1.0, 0.0, 3.0)),
            "compute_mode": C((None, 1, 2)),
        },
        dtypes="wide",
    ),
    rule("_euclidean_dist", args={"x1": T("n k"), "x2": T("m k", "same")}, dtypes="wide"),
    rule("pdist _pdist_forward", args={"self": T("n k")}, dtypes="wide"),
    rule(
        "linalg_inv* inverse linalg_det _linalg_det det logdet slogdet linalg_slogdet _linalg_slogdet linalg_lu* linalg_eig* _linalg_eigh "
        "linalg_matrix_exp matrix_exp linalg_ldl* linalg_eigvals* trace matrix_power linalg_matrix_power",
        args=SQUARE,
    ),
    rule("trace", args={"self": T("n m")}),
    rule(
        "linalg_matrix_power matrix_power",
        args={"n": I(-2, 4), "self": T("* c c", "main", "square")},
        # The 100th power overflows. The order of multiplications decides whether the real or the imaginary part does.
        unchecked=frozenset(["n"]),
    ),
    rule("linalg_polar", args={"A": T("* 4 m")}, sizes={"m": (0, 4)}),
    rule("linalg_cholesky linalg_cholesky_ex cholesky linalg_matrix_sqrth", args={"self": T("* n n", "main", "spd")}),
    rule(
        "linalg_svd* _linalg_svd svd linalg_qr qr linalg_pinv* pinverse linalg_matrix_rank*",
        args={"self": T("* n m"), "A": T("* n m")},
    ),
    rule("linalg_solve* _linalg_solve_ex", args={"A": T("* n n", "main", "square"), "B": T("* n m", "same")}),
    rule(
        "linalg_solve linalg_solve_ex _linalg_solve_ex",
        args={"B": sided("n", "m"), **LEFT},
        sizes=LEFT_SIZES,
        always=frozenset(["left"]),
    ),
    rule("triangular_solve", args={"self": T("n m"), "A": T("n n", "same", "square")}),
    rule(
        "linalg_solve_triangular",
        args={"self": T("n n", "main", "square"), "B": sided("n", "m"), **LEFT},
        sizes=LEFT_SIZES,
        always=frozenset(["left"]),
    ),
)


# ---------------------------------------------------------------- more matrices

MATRIX = T("* n m")
LU = {
    "LU": T("n n", "main", "square"),
    "LU_data": T("n n", "same", "square"),
    "pivots": T("n", "int32", ("n", "n")),
    "LU_pivots": T("n", "int32", ("n", "n"), layout="c"),
}
TOL = {k: T("", "real", "positive") for k in ("tol", "rcond", "atol", "rtol")}

MORE_MATRICES = (
    rule(
        "_addmm_activation", args={"self": T("m"), "mat1": T("n k", "same"), "mat2": T("k m", "same")}, dtypes="float"
    ),
    rule("chain_matmul linalg_multi_dot", args={"matrices": Ts("n n", "same"), "tensors": Ts("n n", "same", count=2)}),
    rule("linalg_multi_dot", args={"tensors": Ts("n n", "same", count=3)}),
    rule("cholesky_inverse", args={"self": T("* n n", "main", "spd")}),
    rule(
        "cholesky_solve _cholesky_solve_helper",
        args={"self": T("* n m"), "input2": T("* n n", "same", "spd"), "A": T("* n n", "same", "spd")},
    ),
    rule("_cholesky_solve_helper", wild=0),  # torch checks no shape, and reads out of bounds
    rule("linalg_cond", args={"self": T("* n n", "main", "square"), "p": C((None, 2, -2, 1, float("inf")))}),
    # For a singular matrix, rounding decides whether an inverse exists; contiguous arrays have no equal rows.
    rule("linalg_cond.p_str", args={"self": T("* n n", "main", "square", layout="c"), "p": C(("fro", "nuc"))}),
    rule(
        "linalg_eigh linalg_eigvalsh _linalg_eigh",
        args={"UPLO": C(("L", "U", "l", "u")), "compute_v": C((True, False))},
    ),
    rule("_linalg_eigvals linalg_eig*", args={"self": T("* n n", "main", "square")}),
    rule("linalg_svd* _linalg_svd svd", args={"driver": C((None, None, None, "gesvd"))}),
    rule("linalg_qr", args={"mode": C(("reduced", "complete", "r"))}),
    rule("geqrf", args={"self": MATRIX}),
    rule(
        "linalg_householder_product orgqr",
        args={"input": T("3 m"), "self": T("3 m"), "tau": T("m", "same"), "input2": T("m", "same")},
        sizes={"m": (1, 3)},
    ),
    rule(
        "ormqr",
        args={"self": T("3 m"), "input2": T("m", "same"), "input3": sided("3", "c"), **LEFT},
        sizes={"m": (1, 3), **LEFT_SIZES},
        always=frozenset(["left"]),
    ),
    # Leave out "gelsy": torch does not initialize its list of pivots, so arbitrary memory decides the cut-off of the
    # rank.
    rule(
        "linalg_lstsq",
        args={"self": T("* n m"), "b": T("* n c", "same"), "driver": C(("gelsd", "gelss"), always=True)},
        always=frozenset(["driver"]),
        wild=0,
    ),
    rule("linalg_lu_solve", args={**LU, "B": T("n m", "same"), "left": C((True,))}, wild_values=False),
    rule("lu_solve", args={**LU, "self": T("n m")}, wild_values=False),
    # If there are too few pivots, torch reads beyond them.
    rule("lu_unpack", args={**LU, "LU_data": T("n n", "main")}, wild_values=False, wild=0),
    rule(
        "linalg_ldl_solve",
        args={"LD": T("n n", "main", "square"), "pivots": T("n", "int32", ("n", "n")), "B": T("n m", "same")},
        wild_values=False,
        wild=0,
    ),
    rule(
        "linalg_matrix_norm",
        args={
            "self": T("* n m"),
            "ord": N((1, -1, 2, -2, float("inf"), float("-inf"))),
            "dim": C(([-2, -1], [-1, -2])),
            "dtype": wider,
        },
    ),
    rule(
        "linalg_matrix_norm.str_ord linalg_norm.ord_str",
        args={"self": T("* n m"), "ord": C(("fro", "nuc")), "dim": C(([-2, -1],)), "dtype": wider},
    ),
    rule("linalg_matrix_norm.str_ord linalg_norm.ord_str", always=frozenset(["dim"])),
    rule("nuclear_norm", args={"self": T("n m"), "dim": C(([0, 1], [-1, -2]))}),
    rule(
        "linalg_pinv linalg_matrix_rank",
        args={"self": symmetric, "input": symmetric, "hermitian": lambda c: bool(c.size("hermitian"))},
        sizes={"hermitian": (0, 1)},
        always=frozenset(["hermitian"]),
    ),
    # With weights and a single observation torch overwrites its input: [0.5] with fweights [2] becomes [0.0].
    rule(
        "cov",
        args={"self": T("n? m"), "fweights": T("m", "int64", (1, 3)), "aweights": T("m", "same", "unit")},
        sizes={"m": (2, 4)},
    ),
    # For a singular matrix, rounding decides whether there is an error and, if the tolerance is small, what the rank
    # is.
    rule("linalg_tensorinv", args={"self": T("1 n n", "main", "square"), "ind": C((2,))}),
    rule(
        "linalg_tensorsolve", args={"self": T("1 n n", "main", "square"), "other": T("1 n", "same"), "dims": C((None,))}
    ),
    rule("linalg_matrix_rank", args={"tol": C((0.01, 0.5, 3.0, float("inf")))}),
    rule("linalg_pinv pinverse", args={"rcond": C((0.01, 0.5, 1.0))}),
    # With a negative tolerance, the rounding error of a zero singular value is inverted.
    rule("linalg_pinv* pinverse", unchecked=frozenset(["rcond", "atol", "rtol"])),
    rule("linalg_*.atol_rtol_float", args={"atol": C((None, 0.01, 0.5)), "rtol": C((None, 0.01, 0.5, 1.0))}),
    rule("linalg_matrix_rank.*tensor* linalg_pinv.*tensor*", args=TOL),
    rule(
        "linalg_ldl_factor* linalg_lu_factor* linalg_lu",
        args={"self": T("* n n", "main", "square"), "A": T("* n n", "main", "square")},
    ),
    rule("linalg_vander", args={"x": T("* m"), "N": C((None, 2, 4))}),
    rule("linalg_vecdot", args={"x": T("any"), "y": T("bcast", "same")}),
    *(
        rule(
            name,
            args={
                "grad": T(pairs),
                "grad_output": T(pairs),
                **points,
                "p": C((2.0, 1.0)),
                dist: T(pairs, "same", "positive"),
            },
            dtypes="wide",
        )
        for name, pairs, points, dist in (
            ("_cdist_backward", "n m", {"x1": T("n k", "same"), "x2": T("m k", "same")}, "cdist"),
            ("_pdist_backward", "n*(n-1)//2", {"self": T("n k", "same")}, "pdist"),
        )
    ),
    rule("_pdist_backward", wild=0),  # torch checks only the shape of the points, and reads out of bounds
    # For points without coordinates torch's gradient has the strides of x1, which an empty ndarray cannot have.
    rule("_cdist_backward", sizes={"k": (1, 4)}, wild=0),
    # If there are no elements, torch does not check the shapes.
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
        wild=0,
    ),
)


# ---------------------------------------------------------------- LDL factors

_LDL = {"self": T("* n n", "main", "square"), "LD": T("* n n", "main", "square"), "B": T("* n k", "same"),
        "pivots": lambda c: c.array(T("* n", "int32", (1, 1)))}  # fmt: skip
FACTORS = (
    rule(
        "linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve",
        args=_LDL,
        dtypes="lapack",
        mixed=0,
        sizes={"n": (1, 4)},
    ),
)

ROWS = (*DEFAULTS, *MATRICES, *MORE_MATRICES, *FACTORS)
