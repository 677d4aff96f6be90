"""The proof in reverse: compare `torchnp.np` with NumPy itself, on the natural calls of all samples.

The proof of the differences translates torch's calls to natural NumPy calls and explains each disagreement. This module
runs the natural calls twice: NumPy on arrays, and `torchnp.np` on tensors with the same values. The two must agree in
values, dtypes, shapes and errors.
"""

from __future__ import annotations

import argparse
import re
import types
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import torchnp
from torchnp.lookup.public_name import public_name

from ..backends.backend import Seen, error_of
from ..case import map_tree
from . import template_helpers
from .natural_call import NaturalCall, NoNaturalCallError, build
from .pairs import answer_of, compare, seen_of
from .prove import counterpart, provable, recorded

__all__ = ["ReverseAccount", "compare_functions", "main"]


# Accepted disagreements: a pattern for functions, one for the start of the message, and the reason. Both sides are
# right in these.
EXPLAINED: tuple[tuple[str, str, str], ...] = (
    (
        r"clip|cumprod|mean|nanmean|negative|prod|sign|sum|sort|fft\..*",
        "zero sign",
        "arithmetic of zeros: the order of operations, and the vector loops of the processor, choose the sign",
    ),
    (r"log1p", "not finite", "a complex number of infinite size has either infinity or nan as its real part"),
    (r"argsort", "value", "NumPy's default order of equal elements is unspecified, and the processor's"),
    (r"searchsorted", "value", "the array is not sorted"),
    (
        r"linalg\.pinv",
        "value",
        "the matrix has no pseudo-inverse at this tolerance: its smallest singular value is rounding",
    ),
    (r"linalg\.svd", "value", "the harness judges the factors of aten::svd, which has V in place of NumPy's Vh"),
    (r"linalg\.lstsq", "error", "torch's own assertion fails for a matrix of nan"),
    (r"shares_memory", "zero sign", "each array comes to each side as a copy"),
    (
        r"lib\.stride_tricks\.as_strided",
        "only NumPy computes: (ValueError: strides of tensors|RuntimeError: setStorage)",
        "no tensor has strides that are no whole elements, or memory outside its storage",
    ),
    (
        r"lib\.stride_tricks\.as_strided",
        "only NumPy computes: AttributeError: 'TensorArray' object has no attribute '__array_interface__'",
        "the spelling in NumPy takes an array's address",
    ),
    (
        r"lib\.stride_tricks\.as_strided",
        "error: .*setStorage|value",
        "each array comes as a copy, without what is between its elements in memory",
    ),
    (
        r"unique",
        "value: result",
        "NumPy compares rows as records, in which nan has no place, and 0 and -0 are one, of either sign",
    ),
    (
        r"fill_diagonal|fft\..*",
        "value",
        "the target has elements on the same memory: which write comes last is unspecified",
    ),
    (r"fft\.rfftn", "value: 2 of 120 differ in nan, infinity or sign of zero", "as above"),
    (
        r"einsum",
        "value|NumPy alone refuses: (IndexError|ValueError)",
        "optimize= is a path of torch's, which NumPy takes on trust: it contracts other operands, or fails",
    ),
    (r"einsum", "error: .*not a valid symbol", "NumPy refuses the same letter in other words"),
    (
        r"array_split",
        "NumPy alone refuses: TypeError: slice indices",
        "a 0-d tensor of an integer is an index, as in torch",
    ),
)


@dataclass
class ReverseAccount:
    """The results for the calls of one function of NumPy.

    Attributes
    ----------
    passed, rounding, nearer, refused : int
        Number of calls that agree; that agree except for rounding; that NumPy rounds worse (its result is farther from
        its own result in float64); and that both sides refuse.
    explained : Counter of str
        Number of calls that disagree for a reason in `EXPLAINED`, by reason.
    failed : list of (str, str)
        The disagreement, and the call.
    """

    passed: int = 0
    rounding: int = 0
    nearer: int = 0
    refused: int = 0
    explained: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[str, str]] = field(default_factory=list)


def _helpers() -> dict[str, Any]:
    """Return the helper functions of templates, rebound to work on `TensorArray`."""
    from torchnp.np.rebind_numpy_functions import NAMESPACE

    space: dict[str, Any] = {**vars(template_helpers), "np": NAMESPACE}
    for name, value in vars(template_helpers).items():
        if isinstance(value, types.FunctionType) and value.__module__ == template_helpers.__name__:
            space[name] = types.FunctionType(value.__code__, space, name, value.__defaults__, value.__closure__)
    return {
        name: space.get(name, NAMESPACE if name == "np" else value) for name, value in template_helpers.HELPERS.items()
    }


def _on_tensors(call: NaturalCall, name: str) -> Seen:
    """Run a natural call on tensors instead of arrays, with the function of `torchnp.np` instead of NumPy's."""
    import warnings

    from torchnp.np.arrays import TensorArray
    from torchnp.np.dtypes import from_array
    from torchnp.np.rebind_numpy_functions import array_function

    def leaf(x: Any) -> Any:
        return TensorArray(from_array(x.copy())) if isinstance(x, np.ndarray) else x

    names = {**_HELPERS, **{k: map_tree(leaf, v) for k, v in call.given.items()}, "f": array_function(name)}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            out = _evaluate(call, names)
            return seen_of(map_tree(lambda x: np.array(x) if isinstance(x, TensorArray) else x, _plain(out)), [])
        except Exception as e:
            return Seen(error=error_of(e))


def _evaluate(call: NaturalCall, names: dict[str, Any]) -> Any:
    template = call.template
    args: list[Any] = []
    for code, _, starred in template.args:
        value = eval(code, names)
        args += [*value] if starred else [value]
    kwargs = {k: eval(code, names) for k, code, n in template.kwargs if n <= call.given.keys()}
    for k, v in call.kwargs.items():  # ``out=``, which templates don't have
        if k not in kwargs and all(k != name for name, _, _ in template.kwargs):
            kwargs[k] = next((names[n] for n, x in call.given.items() if x is v), v)
    out = None if template.whole else names["f"](*args, **kwargs)
    return out if template.then is None else eval(template.then, {**names, "_": out})


def _plain(x: Any) -> Any:
    return list(map(_plain, x)) if isinstance(x, (tuple, list)) else x


_HELPERS: dict[str, Any] = {}


def row_name(op: str) -> str:
    """Return the name of the row of `torchnp.np` for an overload's counterpart, or "" if there is none."""
    import torchnp.np

    side = counterpart(op)
    name = (side[1] if side else "").removeprefix("numpy.")
    return name if name in torchnp.np.table else ""


def compare_functions(names: frozenset[str] | None = None, draws: int = 0) -> dict[str, ReverseAccount]:
    """Return the account of each function of `torchnp.np` that is the counterpart of an operator."""
    _HELPERS.update(_helpers())
    ops = {op: row_name(op) for op in provable()}
    chosen = {op: name for op, name in ops.items() if name and (names is None or name in names)}
    accounts: dict[str, ReverseAccount] = {}
    for case, _ in recorded(frozenset(chosen), draws):
        name = chosen.get(case.op)
        if name is None:
            continue
        like = torchnp.table[case.op].like
        try:
            ours, theirs, wide = (build(case, like, public_name(like)) for _ in range(3))
        except NoNaturalCallError:
            continue
        mine, want = _on_tensors(ours, name), answer_of(theirs)
        _add(accounts.setdefault(name, ReverseAccount()), case, want, mine, wide)
    for name, account in accounts.items():
        left = []
        for words, call in account.failed:
            if why := reason(name, words, call):
                account.explained[why] += 1
            else:
                left.append((words, call))
        account.failed = left
    return accounts


def reason(name: str, words: str, call: str = "") -> str:
    """Return the reason in `EXPLAINED` for a disagreement, or "" if there is none."""
    overlaps = re.search(r"out=[^)]*strides\((\d+, )*0[,)]|_\(\w+\[[^]]*\] strides\((\d+, )*0[,)]", call)
    for functions, start, why in EXPLAINED:
        if re.fullmatch(functions, name) and re.match(start, words) and ("same memory" not in why or overlaps):
            return why
    return ""


def _add(account: ReverseAccount, case: Any, want: Seen, mine: Seen, wide: NaturalCall) -> None:
    if want.error and mine.error:
        same = want.error[0].lstrip("_") == mine.error[0].lstrip("_")
        account.refused += same
        if not same:
            account.failed.append((f"error: {mine.error} for NumPy's {want.error}", case.describe()))
        return
    want.alias, mine.alias = [], []
    want.results = [np.array(r) if isinstance(r, np.ndarray) else r for r in want.results]
    found = compare(case, want, mine)
    if found is None or found.kind in ("strides", "read-only"):
        account.passed += 1
    elif found.kind == "rounding":
        account.rounding += 1
    elif found.kind in ("coarse", "value", "not finite") and _is_nearer(wide, want, mine):
        account.nearer += 1
    else:
        words = {"torch refuses": "NumPy alone refuses", "numpy refuses": "only NumPy computes"}.get(
            found.kind, found.kind
        )
        account.failed.append((f"{words}: {found.message.replace('torch gives', 'NumPy gives')}", case.describe()))


def _is_nearer(wide: NaturalCall, want: Seen, mine: Seen) -> bool:
    """Return whether results are closer than NumPy's results to those that NumPy computes in float64."""
    exact = answer_of(_widened(wide))
    if exact.error or len(exact.results) != len(want.results):
        return False
    for e, w, m in zip(exact.results, want.results, mine.results, strict=True):
        e, w, m = (np.asarray(x) for x in (e, w, m))
        if w.dtype.kind not in "fc" or e.shape != w.shape or not np.isfinite(e).all():
            return False
        limit = np.abs(w.astype(e.dtype) - e) + np.finfo(w.dtype).eps * np.abs(e)
        if not (np.abs(m.astype(e.dtype) - e) <= limit).all():
            return False
    return True


def _widened(call: NaturalCall) -> NaturalCall:
    def leaf(x: Any) -> Any:
        if isinstance(x, np.ndarray) and x.dtype.kind in "fc":
            return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        return x

    call.given = {k: map_tree(leaf, v) for k, v in call.given.items()}
    return call


def main(arguments: list[str] | None = None) -> int:
    """Print how many calls agree, agree except for rounding, are refused on both sides, and fail; list the failures."""
    parser = argparse.ArgumentParser(prog="python -m opinfo_tests.proof.in_reverse", description=__doc__)
    parser.add_argument("names", nargs="*", help="functions of NumPy, such as var or linalg.norm; default: all")
    parser.add_argument("--draws", type=int, default=0, help="random calls of each overload, besides torch's samples")
    parser.add_argument("--messages", type=int, default=3, help="failures to show for each function")
    a = parser.parse_args(arguments)
    accounts = compare_functions(frozenset(a.names) or None, a.draws)
    for name, account in sorted(accounts.items()):
        for words, call in account.failed[: a.messages]:
            print(f"{name}: {words}\n    {call}")
    for why, n in sum((x.explained for x in accounts.values()), Counter[str]()).most_common():
        print(f"{n:,} explained: {why}")
    total = Counter(
        {
            "passed": sum(x.passed for x in accounts.values()),
            "passed but for rounding": sum(x.rounding for x in accounts.values()),
            "nearer than NumPy to its answer in float64": sum(x.nearer for x in accounts.values()),
            "refused by both": sum(x.refused for x in accounts.values()),
            "explained": sum(x.explained.total() for x in accounts.values()),
            "unexplained": sum(len(x.failed) for x in accounts.values()),
        }
    )
    failing = sum(bool(x.failed) for x in accounts.values())
    print(
        f"{len(accounts)} functions, {failing} with failures; calls: "
        + ", ".join(f"{n:,} {k}" for k, n in total.items())
    )
    return 1 if failing else 0


if __name__ == "__main__":
    raise SystemExit(main())
