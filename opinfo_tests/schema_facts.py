"""Facts derived from schemas: which arguments are written, and which overloads are forms of the same operator."""

from __future__ import annotations

from functools import cache
from typing import Any

from .case import Array, Case, leaves
from .case import schemas as all_schemas

OPTIONS = frozenset({"dtype", "layout", "device", "pin_memory"})  # arguments that an ``out=`` overload lacks


IN_PLACE = {f"__i{name}__": f"__{name}__" for name in ("and", "or", "xor", "lshift", "rshift")}


def plain_base(base: str) -> str:
    """Return the base name that an operator shares with its in-place, ``_copy`` and ``_functional`` forms."""
    base = IN_PLACE.get(base, base)
    if base.endswith("__") or not base.strip("_"):
        return base
    return base.removesuffix("_").removesuffix("_copy").removesuffix("_functional")


@cache
def siblings() -> dict[str, tuple[str, ...]]:
    """Return each overload's siblings: overloads of the same operator with the same arguments except ``out=``.

    Siblings are in-place, ``out=``, view or copying forms: arguments for one fit all.
    """
    groups: dict[Any, list[str]] = {}
    for name, s in all_schemas().items():
        taken = tuple(a.name * a.kwonly + a.type for a in s.args if not a.is_out and a.name not in OPTIONS)
        key = s.namespace, plain_base(s.base), taken
        groups.setdefault(key, []).append(name)
    return {name: tuple(n for n in group if n != name) for group in groups.values() for name in group}


def written_arrays(case: Case) -> frozenset[int]:
    """Return the positions, among the case's array arguments, of those that the schema marks as written.

    An operator that only changes its argument's shape or strides writes no memory.
    """
    found: set[int] = set()
    declared = all_schemas()[case.op]
    if "inplace_view" in declared.tags:
        return frozenset()
    by_name = {a.name: a for a in declared.args}
    values = [*zip(declared.args, case.args, strict=False)]
    values += [(by_name[k], v) for k, v in case.kwargs.items() if k in by_name]
    index = 0
    for argument, value in values:
        for leaf in leaves(value):
            if isinstance(leaf, Array):
                if argument.is_write:
                    found.add(index)
                index += 1
    return frozenset(found)


def bound(case: Case) -> dict[str, Any]:
    """Return a case's arguments by name, including defaults."""
    declared = all_schemas()[case.op].args
    found = {a.name: a.default for a in declared if a.has_default}
    return found | {a.name: v for a, v in zip(declared, case.args, strict=False)} | case.kwargs


# Operators that write out of bounds unless their arguments are like those that torch's own callers pass. They run only
# with recorded arguments.
FRAGILE = (
    "_scaled_dot_product",
    "_flash_attention",
    "_efficient_attention",
    "_fused_adam",
    "_fused_adagrad",
    "_fused_sgd",
    "_segment_reduce_backward",
    "_ctc_loss_backward",
    "_sobol_engine_draw",
    "native_layer_norm_backward",
    "_weight_norm_interface",
)
# Operators that resize or replace an argument's storage: an ndarray must own its whole memory to be resized.
OF_MEMORY = ("resize", "_resize", "set")


def is_fragile(op: str) -> bool:
    return op.partition("::")[2].startswith(FRAGILE + OF_MEMORY)


# Matrix operators. For a matrix with equal rows their results (factors, or whether it is singular) depend only on
# rounding errors.
OF_MATRICES = (
    "linalg_", "_linalg_", "cholesky", "inverse", "pinverse", "lu_", "_lu_", "logdet", "slogdet", "det", "lobpcg", "svd",
    "qr", "geqrf", "orgqr", "ormqr", "matrix_", "triangular_solve", "_cholesky",
)  # fmt: skip


# Operators whose names have a prefix in `OF_MATRICES`, but which operate on vectors or are plain products.
OF_VECTORS = (
    "linalg_vector_norm",
    "linalg_vecdot",
    "linalg_cross",
    "linalg_diagonal",
    "linalg_matmul",
    "linalg__powsum",
)


def is_of_matrices(op: str) -> bool:
    name = op.partition("::")[2]
    return name.startswith(OF_MATRICES) and not name.startswith(OF_VECTORS)


def is_out(op: str) -> bool:
    return all_schemas()[op].is_out


def resizable_buffers(case: Case) -> frozenset[int]:
    """Return the buffers that hold exactly one written argument and nothing else.

    An operator may resize such an argument, so its ndarray must own its memory.
    """
    declared = all_schemas()[case.op]
    if not declared.mutates:
        return frozenset()
    uses: dict[int, int] = {}
    for a in case.arrays():
        uses[a.buffer] = uses.get(a.buffer, 0) + 1
    given = dict(zip((a.name for a in declared.args), case.args, strict=False)) | case.kwargs
    written = [leaf for a in declared.written for leaf in leaves(given.get(a.name))]
    whole = (a for a in written if isinstance(a, Array) and uses[a.buffer] == 1 and a.is_whole(case.buffers[a.buffer]))
    return frozenset(a.buffer for a in whole)


# Operators that never read what they overwrite. Uninitialized memory in these arguments would make a case's hash
# unstable.
OVERWRITES = frozenset(
    "fill_ zero_ copy_ normal_ uniform_ random_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_".split()  # noqa: SIM905
)


def blank_written(op: str, args: tuple, kwargs: dict[str, Any], buffers: list) -> None:
    """Zero the buffers that a call overwrites without reading them."""
    declared = all_schemas().get(op)
    if declared is None or not (declared.is_out or declared.base in OVERWRITES):
        return
    written = {a.name for a in declared.args if (a.is_out if declared.is_out else a.is_write)}
    values = [*zip((a.name for a in declared.args), args, strict=False), *kwargs.items()]
    uses: dict[int, bool] = {}
    for name, value in values:
        for leaf in leaves(value):
            if isinstance(leaf, Array):
                uses[leaf.buffer] = uses.get(leaf.buffer, True) and name in written
    for buffer, only_written in uses.items():
        if only_written:
            buffers[buffer][...] = 0
