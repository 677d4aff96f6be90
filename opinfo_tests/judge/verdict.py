"""The verdict on a call: one of a fixed list of outcomes, and a message about how the backend differs from torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from ..backends.backend import Seen
from ..case import BITS, DTYPES, NAMES, Array, Case, is_complex, is_float, is_inexact, leaves, widen
from ..namespaces import is_other
from ..schema_facts import is_out, resizable_buffers
from .matrix_factors import broken_factors
from .tolerances import CLOSE, ToleranceRule, rule_of

OUTCOMES = (
    "pass", "absent", "wrong-value", "wrong-dtype", "wrong-shape", "wrong-alias", "wrong-strides", "no-error",
    "wrong-error", "spurious-error", "crash", "timeout", "unspecified", "refused",
)  # fmt: skip


@dataclass
class Verdict:
    outcome: str
    message: str = ""
    max_abs: float = 0.0
    max_ulp: float = 0.0
    refused: str = ""
    by_element: bool = False  # single elements differ: torch's result in another layout may explain them
    reason: str = ""  # the backend's policy by which it refuses the call


def judge(case: Case, torch_says: Seen, mine: Seen, writes: frozenset[int] = frozenset()) -> Verdict:
    """Compare a backend's behaviour with torch's; ``writes`` are the array arguments that the operator writes.

    Writes are compared before values: a kernel that overwrites its input and then reads it returns wrong values, and
    the wrong write is the cause to report.
    """
    if mine.error and mine.refused:
        return Verdict("refused", f"{mine.error[0]}: {first_line(mine.error[1])}", reason=mine.refused)
    if torch_says.error:
        return judge_error(torch_says.error, mine)
    if mine.error:
        return Verdict("spurious-error", f"{mine.error[0]}: {first_line(mine.error[1])}")
    writes |= undeclared_writes(case, torch_says)
    if torch_says.structure != mine.structure:
        return Verdict("wrong-shape", f"returned {mine.structure}, torch returns {torch_says.structure}")
    rule = rule_of(case)
    for i, (want, got) in enumerate(zip(torch_says.results, mine.results, strict=True)):
        place = f"result {i}: " if len(torch_says.results) > 1 else ""
        form = check_form(want, got)
        if form:
            return Verdict(form.outcome, place + form.message)
    shapes = check_shapes(case, torch_says, mine, writes)
    if shapes:
        return Verdict("wrong-shape", shapes)
    anew = laid_out_anew(case, torch_says, writes)
    wrote = check_foreign(case, torch_says, mine, writes, anew, written=True)
    memory = check_alias(torch_says, mine, anew) or (
        wrote and f"wrote {wrote} bytes of argument memory that torch does not write"
    )
    if memory:
        return Verdict("wrong-alias", memory)
    verdict = check_all_values(case, torch_says, mine, rule, writes)
    if verdict.outcome != "pass":
        return verdict
    left = check_foreign(case, torch_says, mine, writes, anew, written=False)
    if left:
        return Verdict("wrong-alias", f"left {left} bytes of argument memory alone that torch writes")
    if any(w != m for w, m in zip(torch_says.random, mine.random, strict=False) if w and m):
        return Verdict("wrong-value", "the generator is left at another place than torch's")
    strides = check_strides(torch_says, mine, told=is_other(case.op))
    return replace(verdict, outcome="wrong-strides", message=strides) if strides else verdict


def check_all_values(case: Case, torch_says: Seen, mine: Seen, rule: ToleranceRule, writes: frozenset[int]) -> Verdict:
    """Compare the values of results and written arguments.

    Matrix factorizations are not unique, so check their defining equations instead.
    """
    if rule.kind == "factors":
        broken = broken_factors(case, torch_says.results, mine.results)
        return Verdict("wrong-value", broken) if broken else Verdict("pass")
    scale = input_scale(case)
    verdict = check_results(case, torch_says, mine, rule, scale)
    if verdict.outcome != "pass":
        return verdict
    return check_arguments(case, torch_says, mine, rule, scale, writes) or verdict


def check_results(case: Case, torch_says: Seen, mine: Seen, rule: ToleranceRule, scale: float) -> Verdict:
    """Compare the results one by one; return a verdict with the largest errors found."""
    verdict = Verdict("pass")
    for i, (want, got) in enumerate(zip(torch_says.results[: rule.compared], mine.results, strict=False)):
        found = check_values(want, got, rule, scale, case)
        place = f"result {i}: " if len(torch_says.results) > 1 else ""
        verdict.max_abs, verdict.max_ulp = max(verdict.max_abs, found.max_abs), max(verdict.max_ulp, found.max_ulp)
        if found.outcome != "pass":
            return replace(found, message=place + found.message, max_abs=verdict.max_abs, max_ulp=verdict.max_ulp)
    return verdict


# ---------------------------------------------------------------- errors


def judge_error(want: tuple[str, str], mine: Seen) -> Verdict:
    """Require torch's error from the backend: the same class and the same first line, ignoring whitespace."""
    if want[0] == "OutOfContract":
        return Verdict("unspecified", f"torch returns {want[1]}")
    if "INTERNAL ASSERT" in want[1]:
        if mine.error and mine.error[0] == want[0] and "INTERNAL ASSERT" in mine.error[1]:
            return Verdict("pass")
        return Verdict("unspecified", "torch fails an internal assertion, which is a bug of torch's")
    if not mine.error:
        return Verdict("no-error", f"torch raises {want[0]}: {first_line(want[1])}")
    name, message = mine.error
    if name != want[0]:
        return Verdict("wrong-error", f"{name}: {first_line(message)} | torch: {want[0]}: {first_line(want[1])}")
    if said(want[1]) != said(message):
        return Verdict("wrong-error", f"says {first_line(message)!r} | torch says {first_line(want[1])!r}")
    return Verdict("pass")


def said(message: str) -> list[str]:
    """Return the words of a message's first line."""
    return first_line(message, 100_000).split()


def first_line(message: str, limit: int = 160) -> str:
    line = (message.strip().splitlines() or [""])[0]
    if len(line) <= limit:
        return line
    return line[:limit].rpartition(" ")[0].rstrip(",;:") + " ..." if " " in line[:limit] else line[:limit]


# ---------------------------------------------------------------- type, dtype, shape and strides


def check_form(want: Any, got: Any) -> Verdict | None:
    if not isinstance(want, np.ndarray):
        return None
    if type(got) is not np.ndarray:
        return Verdict("wrong-dtype", f"returned a {type(got).__name__}, not an array")
    if got.dtype != want.dtype:
        return Verdict("wrong-dtype", f"{NAMES.get(got.dtype, got.dtype)}, torch gives {NAMES[want.dtype]}")
    if got.shape != want.shape:
        return Verdict("wrong-shape", f"{list(got.shape)}, torch gives {list(want.shape)}")
    return None


def check_strides(want: Seen, mine: Seen, told: bool = False) -> str:
    """Compare the results' strides if the backend reports them, including those of dimensions of size 0 and 1.

    With ``told``, compare only strides that locate an element: kernels of other libraries do not reproduce torch's
    layout.
    """
    for i, (w, m) in enumerate(zip(want.strides, mine.strides, strict=False)):
        if w is None or m is None:
            continue
        shape = np.shape(mine.results[i])
        kept = [n for n, extent in enumerate(shape) if not told or (0 not in shape and extent > 1)]
        if [m[n] for n in kept] != [w[n] for n in kept]:
            place = f"result {i}: " if len(mine.strides) > 1 else ""
            return f"{place}strides {list(m)} of {list(mine.results[i].shape)}, torch gives {list(w)}"
    return ""


# ---------------------------------------------------------------- values


def check_values(want: Any, got: Any, rule: ToleranceRule, scale: float, case: Case) -> Verdict:
    """Compare NaN, infinity and signs of zeros, then values by the operator's rule."""
    if not isinstance(want, np.ndarray):
        same = not isinstance(got, np.ndarray) and (want == got or (want != want and got != got))
        return Verdict("pass") if same else Verdict("wrong-value", f"{got!r}, torch gives {want!r}")
    if rule.kind == "uninitialised" or want.size == 0:
        return Verdict("pass")
    if same_bits(want, got):
        return Verdict("pass")
    if rule.kind == "cast" and not is_inexact(want.dtype):
        return check_cast(want, got, case)
    if not is_inexact(want.dtype):
        # In reinterpreted memory a bool's byte may be neither 0 nor 1: torch keeps the byte in cat and makes it 1 in
        # clone.
        bad = want != got
        return mismatch(bad, want, got, 0.0, 0.0) if bad.any() else Verdict("pass")
    parts = ((want.real, got.real), (want.imag, got.imag)) if is_complex(want.dtype) else ((want, got),)
    if is_complex(want.dtype) and want.dtype.kind != "c":
        wide_want, wide_got = widen(want), widen(got)
        parts = ((wide_want.real, wide_got.real), (wide_want.imag, wide_got.imag))
    for w, g in parts:
        bad = special_mismatch(widen(w), widen(g), rule.zero_sign)
        if bad.any():
            return mismatch(bad, want, got, np.nan, np.nan, "nan, infinity or sign of zero")
    if rule.most:
        beyond = [(np.abs(widen(g)) > rule.most) & (np.abs(widen(w)) <= rule.most) for w, g in parts]
        if np.logical_or.reduce(beyond).any():  # larger than any order of additions explains
            found = mismatch(np.logical_or.reduce(beyond), want, got, 0.0, 0.0, f"being beyond {rule.most:g}")
            return replace(found, by_element=False)
    narrow = computed_dtype(want.dtype, case)
    return check_near(want.astype(narrow), got.astype(narrow), rule, scale)


def same_bits(want: np.ndarray, got: np.ndarray) -> bool:
    return np.ascontiguousarray(want).tobytes() == np.ascontiguousarray(got).tobytes()


def special_mismatch(w: np.ndarray, g: np.ndarray, zero_sign: bool) -> np.ndarray:
    bad = (np.isnan(w) != np.isnan(g)) | ((np.isinf(w) | np.isinf(g)) & (w != g) & ~np.isnan(w))
    if zero_sign:
        bad |= (w == 0) & (g == 0) & (np.signbit(w) != np.signbit(g))
    return bad


def computed_dtype(dtype: np.dtype, case: Case) -> np.dtype:
    """Return the dtype in which a result was computed: the inputs' dtype if ``out=`` has a wider one."""
    if not is_out(case.op):
        return dtype
    inputs = [a_dtype(a) for v in case.args for a in leaves(v) if isinstance(a, Array)]
    inexact = [dt for dt in inputs if is_inexact(dt)] or [DTYPES["float32"]]
    widest = max(inexact, key=lambda dt: dt.itemsize)
    if is_complex(dtype) and not is_complex(widest):
        widest = DTYPES["complex128" if widest.itemsize == 8 else "complex64"]
    elif is_complex(widest) and not is_complex(dtype):
        widest = DTYPES["float64" if widest.itemsize == 16 else "float32"]
    elif is_complex(widest) and is_float(dtype):
        widest = DTYPES[{16: "float64", 8: "float32"}.get(widest.itemsize, "float16")]
    return widest if widest.itemsize < dtype.itemsize and is_inexact(dtype) else dtype


def check_near(want: np.ndarray, got: np.ndarray, rule: ToleranceRule, scale: float) -> Verdict:
    wide = np.complex128 if is_complex(want.dtype) else np.float64
    w, g = widen(want).astype(wide), widen(got).astype(wide)
    finite = np.isfinite(w) & np.isfinite(g)
    w, g = np.where(finite, w, 0), np.where(finite, g, 0)
    error = np.abs(w - g)
    max_abs = float(error.max())
    max_ulp = float(ulp_distance(want, got, finite).max())
    rtol, atol = CLOSE[NAMES[want.dtype]]
    if rule.double and want.dtype in (np.float64, np.complex128):
        rtol = atol = rule.double
    if rule.kind in ("exact", "cast", "ties"):
        bad = w != g
    else:
        atol = min(atol, rtol * max(scale, float(np.abs(w).max())))
        least = float(ml_dtypes.finfo(want.dtype if is_float(want.dtype) else w.real.dtype).smallest_subnormal)
        bad = error > max(atol, least) + rtol * np.abs(w)
        if rule.kind == "ulp" and is_float(want.dtype):
            bad |= ulp_distance(want, got, finite) > rule.ulp
        if rule.half and NAMES[want.dtype] in ("float16", "bfloat16"):
            units = ulp_distance(want, got, finite) > (1 if NAMES[want.dtype] == "bfloat16" else rule.half)
            # allow rounding errors of float32, in which half-precision results are computed
            bad |= units & (error > 4 * np.finfo(np.float32).eps * scale)
        if rule.once and NAMES[want.dtype] in ("float16", "bfloat16"):
            bad |= w != g
    if not bad.any():
        return Verdict("pass", max_abs=max_abs, max_ulp=max_ulp)
    return mismatch(bad, want, got, max_abs, max_ulp)


def mismatch(
    bad: np.ndarray, want: np.ndarray, got: np.ndarray, max_abs: float, max_ulp: float, what: str = ""
) -> Verdict:
    where = np.unravel_index(int(np.argmax(bad)), bad.shape)
    one = lambda a: widen(np.asarray(a[where]))[()]
    at = f" at {[int(i) for i in where]}" if where else ""
    text = f"{int(bad.sum())} of {bad.size} differ{' in ' + what if what else ''}: {one(got)!r}, torch gives {one(want)!r}{at}"
    if max_abs == max_abs and max_abs:
        text += f"; largest error {max_abs:.3g}, {max_ulp:.3g} ulp"
    return Verdict("wrong-value", text, max_abs, max_ulp, by_element=True)


def ulp_distance(want: np.ndarray, got: np.ndarray, finite: np.ndarray) -> np.ndarray:
    """Return the distance of two values in ulps; for complex values the larger one of real and imaginary parts."""
    if is_complex(want.dtype):
        if want.dtype.kind != "c":
            want, got = widen(want), widen(got)
        return np.maximum(ulp_distance(want.real, got.real, finite), ulp_distance(want.imag, got.imag, finite))
    top = 8 * want.itemsize - 1
    w, g = (np.ascontiguousarray(a).view(BITS[a.itemsize]).reshape(a.shape) for a in (want, got))
    mask = w.dtype.type((1 << top) - 1)
    low, high = np.minimum(w & mask, g & mask), np.maximum(w & mask, g & mask)
    # Subtract as integers: float64 cannot represent all 64-bit patterns.
    apart = np.where((w ^ g) >> w.dtype.type(top), low.astype(np.float64) + high.astype(np.float64), high - low)
    return np.where(finite, apart, 0).astype(np.float64)


def check_cast(want: np.ndarray, got: np.ndarray, case: Case) -> Verdict:
    """Compare converted values that fit the integer dtype or int32; the conversion of others is undefined in C."""
    source = next((a.on(case.buffers) for a in reversed(case.arrays()) if is_inexact(a_dtype(a))), None)
    bad = want != got
    if source is not None and want.dtype != np.bool_:
        wide = widen(source)
        wide = np.trunc(wide.real if np.iscomplexobj(wide) else wide).astype(np.float64)
        info = np.iinfo(want.dtype)
        # Conversions to narrower and to unsigned integers take the low bits of a wider integer.
        low, high = min(float(info.min), -(2.0**31)), max(float(info.max), 2.0**31 - 1)
        fits = (wide >= low) & (wide <= high) & (wide < 2.0**63)
        if fits.size == bad.size:  # if the result is a selection of elements, all are compared
            bad = bad & fits.reshape(bad.shape)
    return mismatch(bad, want, got, 0.0, 0.0) if bad.any() else Verdict("pass")


def a_dtype(a: Array) -> np.dtype:
    return DTYPES[a.dtype]


def input_scale(case: Case) -> float:
    """Return the largest finite absolute value in the inexact array arguments."""
    scale = 0.0
    for a in case.arrays():
        if is_inexact(a_dtype(a)):
            wide = np.abs(widen(a.on(case.buffers)))
            wide = wide[np.isfinite(wide)]
            scale = max(scale, float(wide.max()) if wide.size else 0.0)
    return scale


# ---------------------------------------------------------------- memory


def undeclared_writes(case: Case, want: Seen) -> frozenset[int]:
    """Return the arrays that torch writes although its schema does not say so, for example running statistics."""
    if want.buffers is None:
        return frozenset()
    pairs = enumerate(zip(case.arrays(), want.after, strict=True))
    return frozenset(
        i
        for i, (a, w) in pairs
        if w.shape == a.shape
        and w.dtype == a_dtype(a)
        and not np.array_equal(want.buffers[a.buffer], case.buffers[a.buffer])  # t_ changes the view and writes nothing
        and not same_bits(a.on(case.buffers), w)
    )


def check_shapes(case: Case, want: Seen, mine: Seen, writes: frozenset[int]) -> str:
    """Compare the shapes of written arguments after the call, for arguments that an ndarray can resize."""
    resizable, arrays = resizable_buffers(case), case.arrays()
    for i in sorted(writes):
        w, m = want.after[i].shape, mine.after[i].shape
        if m != w and arrays[i].buffer in resizable:
            return f"argument {i} after the call has shape {list(m)}, torch's {list(w)}"
    return ""


def laid_out_anew(case: Case, want: Seen, writes: frozenset[int]) -> frozenset[int]:
    """Return the buffers of written arguments whose shape or strides torch changed.

    An ndarray that is resized in place is contiguous. For such a result only the buffer and the offset are compared
    here; strides are compared separately.
    """
    arrays = case.arrays()
    found = {arrays[i].buffer for i in writes if want.after[i].shape != arrays[i].shape}
    windows = {(arrays[i].buffer, arrays[i].offset): arrays[i] for i in writes}
    for place in want.alias:
        if place is not None and place is not ... and place[:2] in windows:
            a = windows[place[:2]]
            if len(a.shape) == len(place[2]) and not same_window((*place[:2], a.strides), place, a.shape):
                found.add(a.buffer)
    return frozenset(found)


def check_alias(want: Seen, mine: Seen, anew: frozenset[int]) -> str:
    for i, (w, m) in enumerate(zip(want.alias, mine.alias, strict=True)):
        if w is ... or m is ... or not isinstance(mine.results[i], np.ndarray):
            continue
        if (w is None) != (m is None):
            return f"result {i} shares memory with " + (
                f"argument buffer {m[0]}, torch's does not" if w is None else f"no argument, torch's with buffer {w[0]}"
            )
        same = w is None or (w[:2] == m[:2] if w[0] in anew else same_window(w, m, mine.results[i].shape))
        if not same:
            return f"result {i} is window {m} of the arguments' memory, torch's is {w}"
    return ""


def same_window(w: tuple, m: tuple, shape: tuple[int, ...]) -> bool:
    strides = all(a == b for a, b, n in zip(w[2], m[2], shape, strict=True) if n > 1)
    return w[:2] == m[:2] and strides


def check_arguments(
    case: Case, want: Seen, mine: Seen, rule: ToleranceRule, scale: float, writes: frozenset[int]
) -> Verdict | None:
    """Compare the values of written arguments by the operator's rule; return the first failure, or None."""
    left_out = frozenset(sorted(writes)[rule.compared :]) if is_out(case.op) else frozenset()
    for i, (w, m) in enumerate(zip(want.after, mine.after, strict=True)):
        if i in writes - left_out and m.dtype == w.dtype and m.shape == w.shape:
            found = check_values(w, m, rule, scale, case)
            if found.outcome != "pass":
                found.message = f"argument {i} after the call: {found.message}"
                return found
    return None


def check_foreign(
    case: Case, want: Seen, mine: Seen, writes: frozenset[int], anew: frozenset[int], written: bool
) -> int:
    """Return how many bytes of the arguments' memory outside written arguments differ from torch's.

    With ``written``, count bytes that the backend changed, else bytes that only torch changed. The latter are checked
    after values, because torch may write a strided ``out=`` as if it were contiguous.
    """
    if mine.buffers is None or want.buffers is None:
        return 0
    arrays = case.arrays()
    for b, (w, m) in enumerate(zip(want.buffers, mine.buffers, strict=True)):
        free = w != m if w.shape == m.shape else np.zeros(0, bool)
        held = case.buffers[b]
        n = min(free.size, held.size)
        free[n:] = False  # memory added by resizing a result belongs to no argument
        free[:n] &= (m[:n] != held[:n]) == written
        if b in anew or not free.any():
            continue
        for i in writes:
            if arrays[i].buffer == b:
                cover = Array(
                    0, "uint8", (*arrays[i].shape, itemsize(arrays[i])), (*arrays[i].strides, 1), arrays[i].offset
                )
                cover.on([free.view(np.uint8)])[...] = 0
        if free.any():
            return int(free.sum())
    return 0


def itemsize(a: Array) -> int:
    return a_dtype(a).itemsize
