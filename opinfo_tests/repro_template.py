"""The text of a repro script; ``<WORDS>`` in capitals are filled in by `repro.script`."""

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
import zlib

import ml_dtypes
import numpy as np
import torch
from numpy import inf, nan
<IMPORTS>
<RULE>
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


<MINE>


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


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
        given.append(m)
        return m

    def generator(seed):
        import torchnp

        return torchnp.Generator(seed)

    args, kwargs = call(array, lambda kind, name: dtype_of(name) if kind == "dtype" else name, generator)
    if SEED is not None and "torchnp" in sys.modules:
        sys.modules["torchnp"].manual_seed(SEED)
    try:
        out = mine(args, kwargs)
    except Exception as e:
        return e, given, []
    starts = [(m.__array_interface__["data"][0], m.nbytes) for m in held]
    out = flat(out)
    return out, given, [place(r.__array_interface__["data"][0], r, starts) if type(r) is np.ndarray else None for r in out]


def on_torch(op, device="cpu"):
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
            out = flat(op(*args, **kwargs) if device == "cpu" else mine(args, kwargs))
    except Exception as e:
        return e, [to_numpy(t) for t in given], []
    starts = [(t.data_ptr(), t.numel()) for t in held]
    if sizes != [tuple(t.shape) for t in given]:
        starts = None  # an out= that was resized
    places = [place(r.untyped_storage().data_ptr() + r.storage_offset() * r.element_size(), to_numpy(r), starts, r)
              if isinstance(r, torch.Tensor) else None for r in out]
    return [to_numpy(r) if isinstance(r, torch.Tensor) else r for r in out], [to_numpy(t) for t in given], places


def flat(out):
    if isinstance(out, (list, tuple)):
        return [x for item in out for x in flat(item)]
    return [np.asarray(out) if isinstance(out, np.generic) else out]


def to_numpy(t):
    t = t.detach().resolve_conj().resolve_neg().cpu().contiguous()
    dt = dtype_of(str(t.dtype).removeprefix("torch."))
    return t.reshape(-1).view(torch.uint8).numpy().view(dt).reshape(t.shape) if t.numel() else np.empty(tuple(t.shape), dt)


def place(address, a, starts, t=None):
    """Return which memory a result lies in, at which byte and with which strides, None where in none."""
    if starts is None or (t is not None and (t.is_conj() or t.is_neg())):
        return ...
    strides = a.strides if t is None else [s * t.element_size() for s in t.stride()]
    for i, (start, size) in enumerate(starts):
        if a.size and start <= address < start + size:
            return i, address - start, [s for s, n in zip(strides, a.shape) if n > 1]
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
    want, want_after, want_places = on_torch(TORCH_OP)
    got, got_after, got_places = on_torch(TORCH_OP, DEVICE) if DEVICE else on_numpy()
    if isinstance(want, Exception) or isinstance(got, Exception):
        print("torch   ", show(want) if isinstance(want, Exception) else "returns " + "; ".join(map(show, want)))
        print("backend ", show(got) if isinstance(got, Exception) else "returns " + "; ".join(map(show, got)))
        words = lambda e: (type(e).__name__.lstrip("_"), str(e).split()[:4])
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
    for i, (w, g) in enumerate(zip(want_after, got_after)):
        if not DEVICE and not same(w, g):
            differ = True
            print(f"argument {i} after the call: DIFFERENT\\n  torch   {show(w)}\\n  backend {show(g)}")
    if SEED is not None and "torchnp" in sys.modules:
        state = sys.modules["torchnp"].default_generator.get_state().tobytes()
        if state != torch.get_rng_state().numpy().tobytes():
            differ = True
            print("the generators are left at different places")
    print("DIFFERENT" if differ else "the same")
    return differ


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
'''
