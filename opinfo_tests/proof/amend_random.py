"""Amendments for random numbers: dtypes, defaults, batches, and torch's numbers recomputed from NumPy's generator."""

from __future__ import annotations

from typing import Any

import numpy as np

from .explain_disagreements import adds_if_omitted, amends, expects, refuse
from .natural_call import NaturalCall
from .torch_promotion import DEFAULT

# ---------------------------------------------------------------- independent of the generated numbers


@amends("random-dtype", stage=6)
def cast_to_tensor_dtype(call: NaturalCall) -> Any:
    dtype = call.first.dtype
    call.after.append(lambda out: np.asarray(out).astype(dtype))
    return True


@amends("random-complex", stage=3)
def generate_both_parts(call: NaturalCall) -> Any:
    """Generate both parts of complex numbers.

    Normal parts have half the variance each; a real mean is added to both parts.
    """
    f, dtype = call.f, call.given.get("dtype") or call.first.dtype
    if dtype.kind != "c":
        return False
    share = 1.0 if f is np.random.rand or f is np.random.uniform else np.sqrt(0.5)

    def drawn(*args: Any, **kwargs: Any) -> Any:
        mean, *rest = args if f is np.random.normal and args else (None, *args)
        x, y = (np.asarray(f(*(rest if mean is None else (0.0, *rest)), **kwargs)) * share for _ in range(2))
        return x + 1j * y + (0 if mean is None else mean if np.iscomplexobj(mean) else mean * (1 + 1j))

    call.f = drawn
    return True


@amends("randint-of-floats", stage=3)
def generate_integers_as_floats(call: NaturalCall) -> Any:
    dtype = call.given.get("dtype")
    if dtype is None or dtype.kind != "f":
        return False
    del call.given["dtype"]
    call.after.append(lambda out: np.asarray(out).astype(dtype))
    return True


@amends("randint-is-float", stage=1)
def use_float32_by_default(call: NaturalCall) -> Any:
    if "dtype" in call.given:
        return False
    call.given["dtype"] = DEFAULT[2]
    call.after.append(lambda out: np.asarray(out).astype(DEFAULT[2]))
    return True


@amends("log-normal-defaults", stage=2)
def use_default_mean_and_std(call: NaturalCall) -> Any:
    if {"mean", "std"} <= call.given.keys():
        return False
    full = call.full()
    call.kwargs |= {"mean": full["mean"], "sigma": full["std"]}
    return True


@amends("randperm-fits", stage=0)
def refuse_length_beyond_dtype(call: NaturalCall) -> Any:
    n, dtype = call.given["n"], call.given.get("dtype", np.dtype(np.int64))
    most = 2 ** (np.finfo(dtype).nmant + 1) + 1 if dtype.kind == "f" else np.iinfo(dtype).max + 1
    return refuse(call) if n > most else False


@amends("dirichlet-rows", stage=3)
def sample_each_row(call: NaturalCall) -> Any:
    f = call.f
    if call.first.ndim == 1:
        return False
    rows: Any = call.first.reshape(-1, call.first.shape[-1]) if call.first.size and call.first.ndim else []
    call.f = lambda x: np.reshape([f(row) for row in rows], x.shape) if len(rows) else np.ones(x.shape)
    return True


@amends("dirichlet-of-zero", stage=2)
def raise_zeros_to_1e_30(call: NaturalCall) -> Any:
    if not (call.first == 0).any():
        return False
    call.given["self"] = np.maximum(call.first, np.float32(1e-30))
    return True


@amends("gamma-above-zero", stage=7)
def clip_to_normal_numbers(call: NaturalCall) -> Any:
    """Clip values to at least the smallest normal number, and for dirichlet to below 1."""
    info = np.finfo(call.first.dtype)
    top = 1 - info.epsneg if call.given["self"].ndim and "dirichlet" in call.op else info.max
    call.after.append(lambda out: np.clip(out, info.tiny, top))
    return True


def are_parameters_degenerate(call: NaturalCall) -> Any:
    """Return whether the deviation is not positive, p is not between 0 and 1, or the bounds are reversed."""
    full = call.full()
    tests = {
        np.random.standard_cauchy: lambda: not full["sigma"] > 0,
        np.random.lognormal: lambda: not full["std"] > 0,
        np.random.geometric: lambda: not 0 < full["p"] < 1,
        np.random.uniform: lambda: full["from_"] > full["to"],
    }
    return tests[call.f]()


@amends("random-parameters", stage=0)
def refuse_degenerate_parameters(call: NaturalCall) -> Any:
    return refuse(call) if are_parameters_degenerate(call) else False


@amends("random-bounds", stage=0)
def refuse_bounds_beyond_dtype(call: NaturalCall) -> Any:
    full, dtype = call.full(), call.first.dtype
    low, high = full.get("from_", 0), full.get("to")
    info = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(np.uint8 if dtype.kind == "b" else dtype)
    least, most = (0, 1) if dtype.kind == "b" else (info.min, info.max)
    last = low if high is None else high - (call.f is np.random.randint)
    return False if least <= low <= most and least <= last <= most else refuse(call)


@amends("multinomial-weights", stage=3)
def normalize_weights(call: NaturalCall) -> Any:
    f = call.f

    def drawn(n: int, size: int, replace: bool = True, p: Any = None) -> Any:
        wide = np.asarray(p, np.float64)
        return f(n, size, replace=replace, p=wide / wide.sum())

    call.f = drawn
    return True


adds_if_omitted("multinomial-replacement", "replacement", replace=False, stage=2)


@amends("multinomial-zero-weights", stage=1)
def append_unweighted_elements(call: NaturalCall) -> Any:
    """Append elements without a weight after all others, in random order."""
    f = call.f
    weighted = np.count_nonzero(np.atleast_2d(call.first), axis=-1)
    if call.given.get("replacement") or not ((weighted > 0) & (weighted < call.given["num_samples"])).any():
        return False

    def drawn(n: int, size: int, replace: bool = True, p: Any = None) -> Any:
        most = min(size, int(np.count_nonzero(p)))
        rest = np.random.permutation(np.flatnonzero(np.equal(p, 0)))
        return np.concatenate([f(n, most, replace=replace, p=p), rest[: size - most]])

    call.f = drawn
    return True


@amends("multinomial-rows", stage=4)
def sample_from_each_row(call: NaturalCall) -> Any:
    f, x = call.f, call.first
    if x.ndim != 2:
        return False

    def drawn(_: int, size: int, p: Any = None, **how: Any) -> Any:
        return np.array([f(x.shape[1], size, p=row, **how) for row in x], np.int64).reshape(len(x), size)

    call.f = drawn
    return True


# ---------------------------------------------------------------- torch's random numbers, bit for bit


@expects("random-stream", "stream")
def cannot_be_recomputed(call: NaturalCall) -> Any:
    """Return whether NumPy cannot recompute torch's numbers; it can for rand and randn in float32 and float64."""
    return call.f not in (np.random.rand, np.random.randn) or requested_dtype(call) not in (np.float32, np.float64)


def words_32bit(call: NaturalCall, n: int) -> np.ndarray:
    """Return 32-bit words of the Mersenne Twister seeded like torch's."""
    return np.random.RandomState(call.seed).randint(0, 2**32, n, np.uint32)


def words_64bit(call: NaturalCall, n: int) -> np.ndarray:
    """Return 64-bit words of the Mersenne Twister; the first 32-bit word is the high half."""
    both = words_32bit(call, 2 * n).astype(np.uint64)
    return both[::2] << np.uint64(32) | both[1::2]


def uniform_float64(call: NaturalCall, n: int) -> np.ndarray:
    return (words_64bit(call, n) & np.uint64(2**53 - 1)) * 2.0**-53


def uniform_float32(call: NaturalCall, n: int) -> np.ndarray:
    return ((words_32bit(call, n) & np.uint32(2**24 - 1)) * np.float32(2**-24)).astype(np.float32)


def requested_dtype(call: NaturalCall) -> np.dtype:
    return call.given.get("dtype", np.dtype(np.float32))


@amends("random-stream", stage=4)
def use_low_24_bits(call: NaturalCall) -> Any:
    """Make a uniform float32 from the low 24 bits of a word."""
    if call.f is not np.random.rand or requested_dtype(call) != np.float32:
        return False
    call.f = lambda *size: uniform_float32(call, int(np.prod(size))).reshape(size).astype(np.float64)
    return True


@amends("random-float64", stage=4)
def use_high_word_first(call: NaturalCall) -> Any:
    if requested_dtype(call) != np.float64:
        return False
    call.f = lambda *size: uniform_float64(call, int(np.prod(size))).reshape(size)
    return True


@amends("randn-box-muller", stage=4)
def apply_box_muller(call: NaturalCall) -> Any:
    """Transform uniform numbers to normal ones by the Box-Muller method, with the same pairs as torch.

    If there are fewer than 16 values, consecutive ones form a pair. Otherwise, value i of a block of 16 is paired with
    value i + 8.
    """
    dtype = requested_dtype(call)
    if dtype not in (np.float32, np.float64):
        return False

    def few(n: int) -> np.ndarray:
        angle, u = uniform_float64(call, n + n % 2).reshape(-1, 2).T
        radius, angle = np.sqrt(-2 * np.log1p(-u)), 2 * np.pi * angle
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).ravel()[:n]

    def blocks(u: np.ndarray) -> np.ndarray:
        u, angle = u.reshape(-1, 2, 8).astype(np.float64).swapaxes(0, 1)
        radius, angle = np.sqrt(-2 * np.log(1 - u)), 2 * np.pi * angle
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()

    def normal(*size: int) -> np.ndarray:
        n, draw = int(np.prod(size)), uniform_float32 if dtype == np.float32 else uniform_float64
        if n < 16:
            return few(n).reshape(size)
        # If the last 16 values are not a whole block, torch generates them again.
        u = draw(call, n if n % 16 == 0 else n + 16)
        values = np.empty(n)
        values[: n - n % 16] = blocks(u[: n - n % 16])
        values[n - 16 :] = blocks(u[-16:])
        return values.reshape(size)

    call.f = normal
    return True


@amends("randint-modulo", stage=2)
def take_words_modulo_range(call: NaturalCall) -> Any:
    """Take words modulo the range; if high - 1 rounds to high in a float dtype, high becomes the next smaller float."""
    full, dtype = call.full(), call.given.get("dtype", np.dtype(np.int64))
    low, high, size = full.get("low", 0), full["high"], full["size"]
    if dtype.kind == "f" and float(dtype.type(high - 1)) >= high:
        high = int(np.nextafter(dtype.type(high), dtype.type(0)))
    if not low < high:
        return False
    n, span = int(np.prod(size)), high - low
    found = (words_64bit if span >= 2**28 else words_32bit)(call, n).astype(np.uint64) % np.uint64(span)
    values = (found + np.uint64(low % 2**64)).view(np.int64).reshape(size)
    call.f = lambda *args, dtype=np.int64, **kwargs: values.astype(dtype)
    return True


@amends("randperm-swaps-forward", stage=4)
def swap_with_later_elements(call: NaturalCall) -> Any:
    n = call.given["n"]
    order, drawn = np.arange(n), words_32bit(call, max(n - 1, 0))
    for i, word in enumerate(drawn.tolist()):
        j = i + word % (n - i)
        order[[i, j]] = order[[j, i]]
    call.f = lambda n: order
    return True
