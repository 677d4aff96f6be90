"""Template of a repro script; `repro.script` replaces the words in angle brackets and capitals, such as ``<TITLE>``."""

TEMPLATE = '''"""<TITLE>

<MESSAGE>

<SCHEMA>
<VERSIONS>
case <CASE>

Runs torch and the backend on the same inputs, prints both, and exits with 1 when they differ.
"""

from __future__ import annotations

import base64
import sys
import types
import zlib

import ml_dtypes
import numpy as np
import torch
from numpy import inf, nan
<IMPORTS>
<RULE>
torch.set_default_dtype(torch.<DEFAULT>)
if "torchnp" in sys.modules:
    sys.modules["torchnp"].set_default_dtype("<DEFAULT>")
TORCH_OP = <OP>
DEVICE = None


def unpack(text, dtype, shape):
    return np.frombuffer(bytes.fromhex(text), np.uint8).view(dtype).reshape(shape).copy()


def unzip(text, dtype, shape):
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).view(dtype).reshape(shape).copy()


def memory():
    return <MEMORY>


def call(array, name, generator):
    """The arguments; array(which memory, dtype, shape, strides and offset in elements)."""
    return <ARGS>, <KWARGS>


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


class Ndarrays:
    """How functions on ndarrays are given arguments; a backend with arrays of its own stands in its place."""

    put = get = staticmethod(lambda x: x)

    def named(self, leaf):
        return dtype_of(leaf.name) if leaf.kind == "dtype" else leaf.name

    def generator(self, seed):
        import torchnp

        return torchnp.Generator(seed)

    def seed(self, seed):
        if "torchnp" in sys.modules:
            sys.modules["torchnp"].manual_seed(seed)

    def state(self):
        return sys.modules["torchnp"].default_generator.get_state().tobytes() if "torchnp" in sys.modules else None

    def place(self, r, buffers):
        starts = [(m.__array_interface__["data"][0], m.nbytes) for m in buffers]
        return place(r.__array_interface__["data"][0], r.strides, r, starts) if type(r) is np.ndarray else None


BACKEND = Ndarrays()


<MINE>


def on_numpy():
    """Return what the backend shows: results or an error, the arguments after the call, where results share memory."""
    held = memory()
    given = []

    def array(i, dtype, shape, strides, offset):
        m, dt = held[i], dtype_of(dtype)
        whole = m.dtype == dt and m.shape == shape and tuple(s // dt.itemsize for s in m.strides) == strides
        if not whole:
            m = m.reshape(-1).view(np.uint8)
            m = np.ndarray(shape, dt, m, offset * dt.itemsize, [s * dt.itemsize for s in strides]) if m.size else np.empty(shape, dt)
        given.append(BACKEND.put(m))
        return given[-1]

    def name(kind, name):
        return BACKEND.named(types.SimpleNamespace(kind=kind, name=name))

    try:
        args, kwargs = call(array, name, BACKEND.generator)
        if SEED is not None:
            BACKEND.seed(SEED)
        out = flat(mine(args, kwargs))
        plain = [r is None or isinstance(r, (bool, int, float, complex, str, np.dtype)) for r in out]
        buffers = [m.reshape(-1).view(np.uint8) for m in held]
        places = [None if p else BACKEND.place(r, buffers) for p, r in zip(plain, out)]
        out = [r if p else BACKEND.get(r) for p, r in zip(plain, out)]
        laid = [elements(r.strides, r.itemsize) if type(r) is np.ndarray and not any(r is x for x in given) else None for r in out]
        return out, [BACKEND.get(x) for x in given], [strided(*pair) for pair in zip(places, out)], laid
    except Exception as e:
        return e, [], [], []


def elements(strides, size):
    return [s // size for s in strides]


def strided(found, a):
    """Return a place with the strides that matter, those of dims with several elements."""
    if found is None or found is ...:
        return found
    return found[0], found[1], [s for s, n in zip(found[2], a.shape) if n > 1]


def on_torch(run, device="cpu"):
    held = [torch.from_numpy(np.ascontiguousarray(m).reshape(-1).view(np.uint8)).clone().to(device) for m in memory()]
    given = []

    def array(i, dtype, shape, strides, offset):
        t = torch.empty(0, dtype=getattr(torch, dtype), device=device)
        given.append(t.set_(held[i].untyped_storage(), offset, shape, strides))
        return given[-1]

    def name(kind, name):
        return torch.device(device) if kind == "device" else getattr(torch, name)

    args, kwargs = call(array, name, lambda seed: torch.Generator(device).manual_seed(seed))
    if SEED is not None:
        torch.manual_seed(SEED)
    sizes = [tuple(t.shape) for t in given]
    try:
        with torch.no_grad():
            out = flat(run(args, kwargs))
    except Exception as e:
        return e, [to_numpy(t) for t in given], [], []
    starts = [(t.data_ptr(), t.numel()) for t in held]
    if sizes != [tuple(t.shape) for t in given]:
        starts = None  # an out= that was resized
    places = [strided(torch_place(r, starts), r) if isinstance(r, torch.Tensor) else None for r in out]
    laid = [list(r.stride()) if isinstance(r, torch.Tensor) else None for r in out]
    return [to_numpy(r) if isinstance(r, torch.Tensor) else r for r in out], [to_numpy(t) for t in given], places, laid


def flat(out):
    if isinstance(out, (list, tuple)):
        return [x for item in out for x in flat(item)]
    return [np.asarray(out) if isinstance(out, np.generic) else out]


def to_numpy(t):
    t = t.detach().resolve_conj().resolve_neg().cpu().contiguous()
    dt = dtype_of(str(t.dtype).removeprefix("torch."))
    return t.reshape(-1).view(torch.uint8).numpy().view(dt).reshape(t.shape) if t.numel() else np.empty(tuple(t.shape), dt)


def torch_place(t, starts):
    if starts is None or t.is_conj() or t.is_neg():
        return ...
    size = t.element_size()
    return place(t.untyped_storage().data_ptr() + t.storage_offset() * size, [s * size for s in t.stride()], to_numpy(t), starts)


def place(address, strides, a, starts):
    """Return which memory a result lies in, at which byte and with which strides, None where in none."""
    for i, (start, size) in enumerate(starts):
        if a.size and start <= address < start + size:
            return i, address - start, strides
    return None


def same(want, got):
    if not isinstance(want, np.ndarray):
        return want == got or (want != want and got != got)
    if type(got) is not np.ndarray or (want.dtype, want.shape) != (got.dtype, got.shape):
        return False
    if KIND == "uninitialised" or want.tobytes() == got.tobytes():
        return True
    if want.dtype.name.startswith("complex"):
        parts = [(x.astype(np.complex128).real, x.astype(np.complex128).imag) for x in (want, got)]
        return all(map(near, *parts))
    return near(want, got) if "float" in want.dtype.name else False


def near(want, got):
    w, g = want.astype(np.float64), got.astype(np.float64)
    if KIND == "factors":  # fixed up to sign
        w, g = abs(w), abs(g)
    if ZERO_SIGN and ((w == 0) & (g == 0) & (np.signbit(w) != np.signbit(g))).any():
        return False
    finite = np.isfinite(w) & np.isfinite(g)
    if not np.array_equal(w[~finite], g[~finite], equal_nan=True):
        return False
    w, g, error = w[finite], g[finite], abs(w[finite] - g[finite])
    if KIND in ("exact", "cast"):
        return not error.any()
    if KIND == "ulp" and ULP and want.dtype.kind == "f" and (error > ULP * np.spacing(abs(want[finite]))).any():
        return False
    atol = min(ATOL, RTOL * max(SCALE, abs(w).max(initial=0)))
    return not (error > atol + RTOL * abs(w)).any()


def show(x):
    if isinstance(x, Exception):
        return f"{type(x).__name__.lstrip('_')}: {(str(x).splitlines() or [''])[0]}"
    if not isinstance(x, np.ndarray):
        return repr(x)
    wide = x if x.dtype.isbuiltin == 1 else x.astype(np.complex64 if "complex" in x.dtype.name else np.float32)
    return f"{x.dtype}{list(x.shape)} {np.array2string(wide, threshold=64, prefix='         ')}"


def main():
    want, want_after, want_places, want_laid = on_torch(lambda args, kwargs: TORCH_OP(*args, **kwargs))
    got, got_after, got_places, got_laid = on_torch(mine, DEVICE) if DEVICE else on_numpy()
    if isinstance(want, Exception) or isinstance(got, Exception):
        print("torch   ", show(want) if isinstance(want, Exception) else "returns " + "; ".join(map(show, want)))
        print("backend ", show(got) if isinstance(got, Exception) else "returns " + "; ".join(map(show, got)))
        words = lambda e: (type(e).__name__.lstrip("_"), (str(e).strip().splitlines() or [""])[0].split())
        differ = not (isinstance(want, Exception) and isinstance(got, Exception) and words(want) == words(got))
        print("DIFFERENT" if differ else "the same")
        return differ
    differ = len(want) != len(got)
    for i, (w, g) in enumerate(zip(want, got)):
        ok = KIND == "ties" and i > 0 or same(w, g)
        differ |= not ok
        print(f"result {i}: {'same' if ok else 'DIFFERENT'}\\n  torch   {show(w)}\\n  backend {show(g)}")
    for i, (w, g) in enumerate(zip(want_places, got_places)):
        if w is not ... and g is not ... and w != g:
            differ = True
            print(f"result {i} lies in (memory, byte, strides): torch {w}, backend {g}")
    for i, (w, g) in enumerate(zip(want_laid, got_laid)):
        if STRIDES and None not in (w, g) and w != g:
            differ = True
            print(f"result {i} has strides {g} in elements, torch's {w}")
    for i, (w, g) in enumerate(zip(want_after, got_after)):
        if not DEVICE and not same(w, g):
            differ = True
            print(f"argument {i} after the call: DIFFERENT\\n  torch   {show(w)}\\n  backend {show(g)}")
    state = BACKEND.state() if SEED is not None and not DEVICE else None
    if state is not None and state != torch.get_rng_state().numpy().tobytes():
        differ = True
        print("the generators are left at different places")
    print("DIFFERENT" if differ else "the same")
    return differ


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
'''
