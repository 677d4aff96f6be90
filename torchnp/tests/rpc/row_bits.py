"""Changes one row of an owner's data in its memory, and compares all bits of all other rows in every labelled result.

``python -m torchnp.tests.rpc.row_bits --minutes 60 --seed 0`` runs that long, over all operators that keep a row label.
No torch.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
import warnings
from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.schema import load
from torchnp.rpc import wire
from torchnp.rpc.server.config.limits import Limits
from torchnp.rpc.server.privacy import row_array, row_calls, row_library
from torchnp.rpc.server.privacy.row_labels import Label, Rows
from torchnp.rpc.server.session.protocol import Connection
from torchnp.rpc.server.session.server_state import ServerState

# Odd and even sizes above the block sizes of pairwise sums, NumPy's buffers and BLAS.
LARGE = (511, 512, 513, 1023, 1025, 2049, 4097, 8193)
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100, 129, 257, 400)
OTHERS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 32, 33, 65)
FLOATS = (dt.float32, dt.float64, dt.float16, dt.bfloat16)
INTS = (dt.int64, dt.int32, dt.int16, dt.int8, dt.uint8)
ADDRESS_SPACE = 8 << 30  # bytes
MOST = 1 << 15  # elements of an operand
MOST_LARGE = 1 << 18

_SPECIAL = [
    0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-42, -1e-42, 5e-324, 1e-310, -1e-310, 3e38, -3e38, 1.7e308, -1.7e308,
    88.0, 88.8, -88.0, -104.0, 709.5, 709.9, -708.5, -746.0, 1.0, -1.0, 1e-20, 1e20, 1e-200, 1e200, 65504.0, 6e-8, 3.3e-39,
    1.0000001, 0.9999999, 20.5, 5e9, 1e19,
]  # fmt: skip


def plain(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return ordinary numbers."""
    if dtype == dt.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0, 9, shape).astype(dtype)
    made = rng.normal(size=shape) * 10.0 ** rng.integers(-2, 2)
    return np.asarray(made + 1j * rng.normal(size=shape) if dtype.kind == "c" else made).astype(dtype)


def odd(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return numbers that are hard for kernels, including nan with any sign and payload."""
    with np.errstate(all="ignore"):
        if dtype == dt.bool_:
            return rng.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            pool = [
                0,
                1,
                2,
                info.min,
                info.max,
                info.max // 2,
                5,
                255 % (info.max + 1),
                max(info.min, -1),
                max(info.min, -7),
            ]
            return rng.choice(np.array(pool, dtype), shape)
        if rng.random() < 0.3:  # arbitrary bits
            size = int(np.prod(shape)) * dtype.itemsize
            return rng.integers(0, 256, size, np.uint8).view(dtype).reshape(shape)
        pool = np.array(_SPECIAL)
        if rng.random() < 0.5:
            pool = rng.choice(pool, 2)
        made = rng.choice(pool, shape)
        return np.asarray(made + 1j * rng.choice(pool, shape) if dtype.kind == "c" else made).astype(dtype)


class Operand(NamedTuple):
    """An array of the session: private with a row dimension, or public."""

    array: np.ndarray
    axis: int | None


class Fuzzer:
    """Makes random calls of the listed operators, and compares results."""

    odd_ones = 0.25  # share of operands with hard numbers
    lengths, most = LENGTHS, MOST

    def __init__(self, seed: int, names: Collection[str] | None = None) -> None:
        self.random, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.state = ServerState(limits=Limits(max_bytes=1 << 30, max_objects=1 << 20))
        schemas = self.state.agreement.schemas
        listed = [n for n in self.state.agreement.names if row_calls.rule(schemas[n])]
        self.names = [n for n in listed if names is None or n in names]
        self.schemas = schemas
        self.labelled: Counter[str] = Counter()
        self.differences: Counter[str] = Counter()
        self.shown: list[str] = []

    # ------------------------------------------------------------ what is called

    def _sizes(self) -> tuple[int, tuple[int, ...], int]:
        """Draw the number of rows, a shape, and the position of the rows in it."""
        r = self.random
        n = r.choice(self.lengths)
        others = [r.choice(OTHERS) for _ in range(r.choice((0, 1, 1, 1, 2, 2, 3)))]
        while n * int(np.prod(others)) > self.most:
            others[others.index(max(others))] = 2
            if max(others) <= 2:
                n = min(n, 100)
        axis = r.choice((0, 0, 0, len(others), r.randint(0, len(others))))
        return n, (*others[:axis], n, *others[axis:]), axis

    def _laid(self, array: np.ndarray) -> np.ndarray:
        """Return the same values in another layout."""
        way = self.random.randrange(7)
        if way == 0:
            return np.asfortranarray(array)
        if way == 1 and array.ndim:  # every second element, from an odd offset
            wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
            wide[..., 1::2] = array
            return wide[..., 1::2]
        if way == 2 and array.ndim:
            wide = np.zeros((array.shape[0] + 1, *array.shape[1:]), array.dtype)
            wide[1:] = array
            return wide[1:]
        if way == 3 and array.ndim > 1:
            return np.ascontiguousarray(array.transpose(range(array.ndim - 1, -1, -1))).transpose(
                range(array.ndim - 1, -1, -1)
            )
        return np.ascontiguousarray(array) if array.ndim else array

    def _operand(self, shape: tuple[int, ...], axis: int | None, dtype: np.dtype) -> Operand:
        make = odd if self.random.random() < self.odd_ones else plain
        return Operand(self._laid(np.asarray(make(self.rng, shape, dtype))), axis)

    def _dtype(self, name: str) -> np.dtype:
        r = self.random.random()
        if r < 0.62:
            return self.random.choice(FLOATS[:2])
        if r < 0.75:
            return self.random.choice(FLOATS)
        if r < 0.92:
            return self.random.choice(INTS)
        return dt.bool_ if r < 0.95 else self.random.choice((dt.complex64, dt.complex128))

    def _index(self, shape: tuple[int, ...], axis: int | None, size: int) -> Operand:
        r = self.random.random()
        low, high = (0, max(size, 1)) if axis is None or r < 0.6 else (-2 * size, 2 * size + 2)
        array = self.rng.integers(low, high, shape)
        if axis is not None and r > 0.9:
            array = self.rng.choice(np.array([-(2**63), 2**63 - 1, 0, size]), shape)
        return Operand(self._laid(array), axis)

    def arguments(self, name: str) -> dict[str, Any]:
        """Draw arguments by name; arrays are `Operand`."""
        schema = self.schemas[name]
        base = schema.base.rstrip("_") if schema.args and schema.args[0].is_write else schema.base
        n, shape, axis = self._sizes()
        dtype = self._dtype(name)
        recipe = getattr(self, f"_of_{base.lstrip('_')}", None)
        if recipe is not None:
            given = recipe(n, shape, axis, dtype, schema)
        else:
            given = {}
        private_left = True
        for a in schema.args:
            if a.name in given or a.type.startswith("Generator"):
                continue
            value = self._argument(a, shape, axis, dtype, private_left)
            if value is not self:
                given[a.name] = value
                private_left = private_left and not (isinstance(value, Operand) and value.axis is not None)
        return {k: v for k, v in given.items() if v is not self}

    def _argument(self, a: Any, shape: tuple, axis: int, dtype: np.dtype, needed: bool) -> Any:
        r = self.random
        kind = a.type.rstrip("?").partition("[")[0]
        if a.is_tensor:
            if a.type.endswith("?") and r.random() < 0.4:
                return None
            if a.type.startswith("Tensor["):
                parts = [self._operand(shape, axis, dtype) for _ in range(r.randint(1, 3))]
                return parts if r.random() < 0.7 else [*parts, self._operand(shape, None, dtype)]
            chosen = dt.bool_ if a.name in ("mask", "condition") and r.random() < 0.8 else dtype
            if r.random() < 0.1 and dtype in FLOATS:
                chosen = r.choice(FLOATS)
            if needed or a.is_write or r.random() < 0.6:
                return self._operand(shape, axis, chosen)
            public = r.choice((shape, shape[1:], (), tuple(1 if r.random() < 0.5 else m for m in shape)))
            return self._operand(public, None, chosen)
        if a.name in ("dim", "dims", "dim0", "dim1", "dimension", "axis0", "axis1"):
            places = [d for d in range(len(shape)) if d != axis] or [0]
            if a.type.rstrip("?").endswith("]"):
                return r.sample(places, r.randint(1, len(places)))
            return r.choice((r.choice(places), r.choice(places) - len(shape)))
        fixed = {
            "reduction": 0, "normalized_shape": list(shape[axis + 1 :]), "size": list(shape), "shape": list(shape),
            "sections": 1, "chunks": 2, "split_size": 2, "k": 1, "n": 1, "step": 1, "repeats": 2, "index": 0,
            "half_to_float": False, "output_mask": [True, True, True], "rounding_mode": r.choice((None, "floor", "trunc")),
            "approximate": r.choice(("none", "tanh")), "self_is_result": False, "input_dtype": wire.Dtype("float32"),
            "ord": r.choice((1, 2, float("inf"))), "p": r.choice((1, 2, float("inf"))), "unbiased": r.random() < 0.5,
        }  # fmt: skip
        if a.name in fixed:
            return fixed[a.name]
        if a.has_default and r.random() < 0.6:
            return self
        if kind == "Scalar" or kind == "float":
            return r.choice((0.5, 1.0, 2.0, 3, -1, 1e-3, 0, 2, 1.5) if kind == "Scalar" else (0.5, 1.0, 2.0, 1e-5))
        if kind == "bool":
            return r.random() < 0.5
        if kind in ("int", "SymInt"):
            return [1] if a.type.rstrip("?").endswith("]") else 1
        return self if a.has_default else {"ScalarType": wire.Dtype("float32"), "str": "none"}.get(kind)

    # ------------------------------------------------------------ operators whose arguments fit together

    def _matrix(self, n: int, axis: int, dtype: np.dtype, batch: tuple[int, ...] = ()) -> tuple[Operand, Operand]:
        """Draw two matrices or batches that can be multiplied; rows are not summed over."""
        r = self.random
        k, m = r.choice(OTHERS), r.choice(OTHERS)
        n = min(n, 100) if batch else n
        if batch and r.random() < 0.7:
            i, b = r.choice(OTHERS), n
            first, second = (b, i, k), (b, k, m)
            which = r.choice(((0, 0), (0, None), (None, 0)))
        elif r.random() < 0.6:
            first, second, which = (*batch, n, k), (*batch, k, m), (len(batch), None)
        else:
            first, second, which = (*batch, m, k), (*batch, k, n), (None, len(batch) + 1)
        return self._operand(first, which[0], dtype), self._operand(second, which[1], dtype)

    def _of_mm(self, n, shape, axis, dtype, schema):
        a, b = self._matrix(n, axis, dtype)
        return {"self": a, "mat2": b}

    def _of_bmm(self, n, shape, axis, dtype, schema):
        a, b = self._matrix(n, axis, dtype, (self.random.choice((1, 2, 3)),))
        return {"self": a, "mat2": b}

    def _bias(self, schema: Any, a: Operand, b: Operand, shape: tuple[int, ...], dtype: np.dtype) -> Operand:
        """Draw the matrix to which a product is added; in place it has the product's rows."""
        if not schema.args[0].is_write:
            return self._operand(self.random.choice((shape, shape[-1:], ())), None, dtype)
        axis = a.axis if a.axis is not None else b.axis if b.array.ndim > 1 else 1
        return self._operand(shape, axis, dtype)

    def _of_addmm(self, n, shape, axis, dtype, schema):
        a, b = self._matrix(n, axis, dtype)
        return {"self": self._bias(schema, a, b, (a.array.shape[0], b.array.shape[1]), dtype), "mat1": a, "mat2": b}

    def _of_baddbmm(self, n, shape, axis, dtype, schema):
        a, b = self._matrix(n, axis, dtype, (2,))
        whole = (*a.array.shape[:2], b.array.shape[2])
        return {"self": self._bias(schema, a, b, whole, dtype), "batch1": a, "batch2": b}

    def _of_mv(self, n, shape, axis, dtype, schema):
        k = self.random.choice(OTHERS)
        return {"self": self._operand((n, k), 0, dtype), "vec": self._operand((k,), None, dtype)}

    def _of_addmv(self, n, shape, axis, dtype, schema):
        k = self.random.choice(OTHERS)
        bias = self._operand((n,), self.random.choice((0, None)), dtype)
        return {"self": bias, "mat": self._operand((n, k), 0, dtype), "vec": self._operand((k,), None, dtype)}

    def _of_outer(self, n, shape, axis, dtype, schema):
        k = self.random.choice(OTHERS)
        a, b = self._operand((n,), 0, dtype), self._operand((k,), None, dtype)
        return dict(zip(("self", "vec2"), (a, b) if self.random.random() < 0.5 else (b, a)))

    _of_ger = _of_outer

    def _of_addr(self, n, shape, axis, dtype, schema):
        k = self.random.choice(OTHERS)
        a, b = self._operand((n,), 0, dtype), self._operand((k,), None, dtype)
        return {"self": self._bias(schema, a, b, (n, k), dtype), "vec1": a, "vec2": b}

    def _of_native_layer_norm(self, n, shape, axis, dtype, schema):
        dims = [self.random.choice(OTHERS) for _ in range(self.random.randint(1, 2))]
        shape = (min(n, 100), *dims)
        weight = None if self.random.random() < 0.4 else self._operand(tuple(dims), None, dtype)
        return {"input": self._operand(shape, 0, dtype), "normalized_shape": dims, "weight": weight, "bias": weight}

    def _of_native_layer_norm_backward(self, n, shape, axis, dtype, schema):
        given = self._of_native_layer_norm(n, shape, axis, dtype, schema)
        whole = given["input"].array.shape
        some = (whole[0], *[1] * (len(whole) - 1))
        given["grad_out"] = self._operand(whole, 0, dtype)
        return given | {"mean": self._operand(some, 0, dtype), "rstd": self._operand(some, 0, dtype)}

    def _of_glu(self, n, shape, axis, dtype, schema):
        return {"self": self._operand((n, 2 * self.random.choice((1, 2, 5, 16))), 0, dtype), "dim": 1}

    def _of_glu_backward(self, n, shape, axis, dtype, schema):
        given = self._of_glu(n, shape, axis, dtype, schema)
        half = given["self"].array.shape[1] // 2
        return given | {"grad_output": self._operand((n, half), 0, dtype)}

    def _of_softmax_backward_data(self, n, shape, axis, dtype, schema):
        return {"input_dtype": wire.Dtype(dt.dtype_name(dtype))}

    _of_log_softmax_backward_data = _of_softmax_backward_data

    def _of_gather(self, n, shape, axis, dtype, schema):
        r = self.random
        k, m = r.choice(OTHERS), r.choice(OTHERS)
        x = self._operand((n, k), r.choice((0, 0, None)), dtype)
        if x.axis is not None and r.random() < 0.2:
            return {"self": x, "dim": 0, "index": Operand(self.rng.permutation(n)[:, None].repeat(k, 1), None)}
        dim = 1 if x.axis is not None else r.choice((0, 1))
        places = (n, m) if dim else (n, k)
        return {"self": x, "dim": dim, "index": self._index(places, 0, x.array.shape[dim])}

    def _of_scatter(self, n, shape, axis, dtype, schema):
        r = self.random
        k, m = r.choice(OTHERS), r.choice(OTHERS)
        m = min(k, m) if r.random() < 0.5 else m
        given = {
            "self": self._operand((n, k), 0 if schema.args[0].is_write else r.choice((0, None)), dtype),
            "dim": 1, "index": self._index((n, m), 0, k),
        }  # fmt: skip
        if any(a.name == "src" for a in schema.args):
            given["src"] = self._operand((n, m + r.choice((0, 1))), r.choice((0, None)), dtype)
        return given

    _of_scatter_add = _of_scatter

    def _of_embedding(self, n, shape, axis, dtype, schema):
        r = self.random
        if r.random() < 0.2:
            return {"weight": self._operand((n, 3), 0, dtype), "indices": Operand(self.rng.permutation(n), None)}
        size = r.choice(OTHERS)
        return {
            "weight": self._operand((size, r.choice(OTHERS)), None, dtype),
            "indices": self._index(shape, axis, size),
        }

    def _of_index_select(self, n, shape, axis, dtype, schema):
        size = self.random.choice(OTHERS)
        if self.random.random() < 0.3:
            return {
                "self": self._operand((n, size), 0, dtype),
                "dim": 0,
                "index": Operand(self.rng.permutation(n), None),
            }
        return {"self": self._operand((size, 3), None, dtype), "dim": 0, "index": self._index((n,), 0, size)}

    def _of_index(self, n, shape, axis, dtype, schema):
        given = self._of_index_select(n, shape, axis, dtype, schema)
        before = [None] if given["dim"] else []
        return {"self": given["self"], "indices": [*before, given["index"]]}

    def _of_where(self, n, shape, axis, dtype, schema):
        return {"condition": self._operand(shape, self.random.choice((axis, axis, None)), dt.bool_)}

    def _of_full_like(self, n, shape, axis, dtype, schema):
        return {"fill_value": 2}

    def _of_fill(self, n, shape, axis, dtype, schema):
        if schema.overload == "Tensor":
            return {"value": self._operand((), None, dtype)}
        return {}

    _of_masked_fill = _of_fill

    def _of_constant_pad_nd(self, n, shape, axis, dtype, schema):
        return {"pad": [self.random.randint(-1, 2) for _ in range(2 * self.random.randint(1, len(shape)))]}

    def _of_select_backward(self, n, shape, axis, dtype, schema):
        size = self.random.choice(OTHERS)
        return {"input_sizes": [size, *shape], "dim": 0, "index": size - 1}

    def _of_slice_backward(self, n, shape, axis, dtype, schema):
        return {"input_sizes": [shape[0] + 3, *shape[1:]], "dim": 0, "start": 1, "end": shape[0] + 1, "step": 1}

    def _of_diagonal_backward(self, n, shape, axis, dtype, schema):
        return {
            "grad_output": self._operand((n, 3), 0, dtype),
            "input_sizes": [n, 3, 4],
            "offset": 0,
            "dim1": 1,
            "dim2": 2,
        }

    def _scattered(self, shape, axis, dtype, part):
        r = self.random
        return {
            "self": self._operand(shape, r.choice((axis, None)), dtype),
            "src": self._operand(part, r.choice((axis, None)), dtype),
        }

    def _of_slice_scatter(self, n, shape, axis, dtype, schema):
        shape = (n, 5)
        return self._scattered(shape, 0, dtype, (n, 2)) | {"dim": 1, "start": 1, "end": 3}

    def _of_select_scatter(self, n, shape, axis, dtype, schema):
        return self._scattered((n, 5), 0, dtype, (n,)) | {"dim": 1, "index": 3}

    def _of_diagonal_scatter(self, n, shape, axis, dtype, schema):
        return self._scattered((n, 3, 3), 0, dtype, (n, 3)) | {"dim1": 1, "dim2": 2}

    def _of_repeat(self, n, shape, axis, dtype, schema):
        repeats = [self.random.choice((1, 2)) for _ in shape]
        repeats[axis] = 1
        return {"repeats": repeats, "dims": repeats}

    _of_tile = _of_repeat

    def _of_repeat_interleave(self, n, shape, axis, dtype, schema):
        return {"self": self._operand((n, 4), 0, dtype), "dim": 1, "output_size": None}

    def _of_expand(self, n, shape, axis, dtype, schema):
        return {"size": [self.random.choice((1, 3)), *shape]}

    _of_broadcast_to = _of_expand_copy = _of_expand

    def _of_permute(self, n, shape, axis, dtype, schema):
        return {"dims": self.random.sample(range(len(shape)), len(shape))}

    _of_permute_copy = _of_permute

    def _of_narrow(self, n, shape, axis, dtype, schema):
        start = Operand(np.array(self.random.randint(0, 2)), None) if schema.overload else 1
        return {
            "self": self._operand((n, 5), 0, dtype),
            "dim": self.random.choice((1, 1, 0)),
            "start": start,
            "length": 1,
        }

    def _of_unfold(self, n, shape, axis, dtype, schema):
        return {"self": self._operand((n, 5), 0, dtype), "dimension": 1, "size": 2}

    _of_unfold_copy = _of_unfold

    def _of_to(self, n, shape, axis, dtype, schema):
        wanted = self.random.choice((*FLOATS, *INTS, dt.bool_))
        return {"device": "cpu", "dtype": wire.Dtype(dt.dtype_name(wanted))}

    _of_to_copy = _of_to

    def _of_flip(self, n, shape, axis, dtype, schema):
        return {"dims": [self.random.randrange(len(shape))]}

    def _of_roll(self, n, shape, axis, dtype, schema):
        return {"shifts": [self.random.randint(-3, 3)], "dims": [self.random.randrange(len(shape))]}

    def _of_split_with_sizes(self, n, shape, axis, dtype, schema):
        dim = self.random.randrange(len(shape))
        first = self.random.randint(0, shape[dim])
        sizes = [first, shape[dim] - first]
        return {"split_sizes": sizes, "split_size": sizes, "dim": dim}

    _of_split_with_sizes_copy = _of_unsafe_split_with_sizes = _of_split_with_sizes

    def _of_split(self, n, shape, axis, dtype, schema):
        return self._of_split_with_sizes(n, shape, axis, dtype, schema) if schema.overload == "sizes" else {}

    def _of_tensor_split(self, n, shape, axis, dtype, schema):
        at = self.random.choice((np.array(2), np.array([1, 2])))
        return {"tensor_indices_or_sections": Operand(at, None)} if "tensor" in schema.overload else {}

    def _of_topk(self, n, shape, axis, dtype, schema):
        return {"self": self._operand((n, 6), 0, dtype), "k": 3, "dim": 1}

    def _of_t(self, n, shape, axis, dtype, schema):
        return {"self": self._operand((n, 4), 0, dtype)}

    _of_t_copy = _of_t

    def _of_unflatten(self, n, shape, axis, dtype, schema):
        return {"self": self._operand((n, 6), 0, dtype), "dim": 1, "sizes": [2, 3]}

    def _convolved(self, n, dtype, dims, at):
        """Draw images and filters, with rows along the batch."""
        r, channels, outputs = self.random, self.random.choice((1, 2, 3, 4)), self.random.choice((1, 2, 4))
        groups = r.choice((1, channels)) if outputs % channels == 0 else 1
        kernel = [r.choice((1, 2, 3)) for _ in range(dims)]
        image = (min(n, 64), channels, *(r.choice((3, 4, 5, 7)) for _ in range(dims)))
        given = {
            "input": self._operand(image, 0, dtype),
            "weight": self._operand((outputs, channels // groups, *kernel), None, dtype),
            "bias": r.choice((None, self._operand((outputs,), None, dtype))), "stride": [r.choice((1, 2))] * dims,
            "padding": [r.choice((0, 1))] * dims, "dilation": [1] * dims, "groups": groups,
        }  # fmt: skip
        return given | at

    def _of_convolution(self, n, shape, axis, dtype, schema):
        dims = self.random.choice((1, 2))
        return self._convolved(n, dtype, dims, {"transposed": False, "output_padding": [0] * dims})

    def _of_conv1d(self, n, shape, axis, dtype, schema):
        return self._convolved(n, dtype, 1, {"padding": "valid"} if schema.overload else {})

    def _of_conv2d(self, n, shape, axis, dtype, schema):
        return self._convolved(n, dtype, 2, {"padding": "valid"} if schema.overload else {})

    def _of_linear(self, n, shape, axis, dtype, schema):
        k, m = self.random.choice(OTHERS), self.random.choice(OTHERS)
        given = {"input": self._operand((n, k), 0, dtype), "weight": self._operand((m, k), None, dtype)}
        return given | {"bias": self.random.choice((None, self._operand((m,), None, dtype)))}

    def _of_nll_loss_forward(self, n, shape, axis, dtype, schema):
        k = self.random.choice(OTHERS)
        weight = self.random.choice((None, self._operand((k,), None, dtype)))
        target = Operand(self.rng.integers(0, k, n), 0)
        return {
            "self": self._operand((n, k), 0, dtype), "target": target, "weight": weight, "ignore_index": -100,
        }  # fmt: skip

    _of_nll_loss = _of_nll_loss_nd = _of_nll_loss_forward

    def _of_cross_entropy_loss(self, n, shape, axis, dtype, schema):
        return self._of_nll_loss_forward(n, shape, axis, dtype, schema) | {"label_smoothing": 0.0}

    def _of_lerp(self, n, shape, axis, dtype, schema):
        return {"weight": 0.25} if schema.overload == "Scalar" else {}

    def _of_softplus_backward(self, n, shape, axis, dtype, schema):
        return {"beta": self.random.choice((1, 2.0)), "threshold": 20}

    def _of_pow(self, n, shape, axis, dtype, schema):
        return {"exponent": self.random.choice((2, 3, 0.5, -1, -2, 1.5, 0, 7, -0.3, 2.0))}

    # ------------------------------------------------------------ running

    def both(self, name: str) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """Return the labelled results of a call with the table's results for the same values; None if there are
        none."""
        given = self.arguments(name)
        operands = [x for v in given.values() for x in (v if isinstance(v, list) else [v]) if isinstance(x, Operand)]
        saved = [x.array.copy() for x in operands]
        found = self._run(name, given, operands, b"")
        for x, was in zip(operands, saved):
            x.array[...] = was
        openly = self._run(name, given, operands, b"", private=False) if found is not None else None
        if found is None or openly is None:
            return None
        return [(x, y) for (x, label), (y, _) in zip(found, openly) if isinstance(label, Rows)]

    def try_one(self, name: str) -> bool:
        """Run one call, and a few others with one row changed; return whether a result was labelled."""
        given = self.arguments(name)
        operands = [x for v in given.values() for x in (v if isinstance(v, list) else [v]) if isinstance(x, Operand)]
        rows = {x.array.shape[x.axis] for x in operands if x.axis is not None}
        if len(rows) != 1:
            return False
        (n,) = rows
        if not n:
            return False
        order = np.arange(n) if self.random.random() < 0.5 else self.rng.permutation(n + 2)[:n]
        if self.random.random() < 0.1:
            order = np.where(self.rng.random(n) < 0.3, -1, order)
        label = b"" if np.array_equal(order, np.arange(n)) else order.astype(np.int64).tobytes()
        saved = [x.array.copy() for x in operands]
        before = self._run(name, given, operands, label)
        if before is None:
            return False
        self.labelled[name] += 1
        for _ in range(3):
            group = np.zeros(n, bool)
            group[self.rng.integers(0, n, self.random.choice((1, 1, 1, 3)))] = True
            group |= np.isin(order, order[group]) & (order >= 0)
            group &= order >= 0
            for x, was in zip(operands, saved):
                x.array[...] = was
                if x.axis is not None:
                    at = (slice(None),) * x.axis + (group,)
                    x.array[at] = odd(self.rng, x.array[at].shape, x.array.dtype)
            after = self._run(name, given, operands, label)
            self._compare(name, given, before, after, set(order[group].tolist()))
        return True

    def _run(
        self, name: str, given: dict, operands: list[Operand], order: bytes, private: bool = True
    ) -> list[tuple[np.ndarray, Label]] | None:
        """Return the results and the written arguments, with labels; None if none is labelled or the call is
        refused."""
        connection = Connection(self.state)
        connection.known = True
        store = connection.store
        handles = {}
        for i, x in enumerate(operands):
            store.claim(i, 1)
            label = None if x.axis is None or not private else Rows("d", x.axis, order)
            store.put(i, x.array, label is None, rows=label)
            handles[id(x)] = wire.Handle(i)
        said = lambda v: (
            wire.Items([said(x) for x in v]) if type(v) is list else handles[id(v)] if isinstance(v, Operand) else v
        )
        schema = self.schemas[name]
        args, kwargs = [], {}
        for a in schema.args:
            if a.name in given:
                if not a.kwonly and len(args) == [b.name for b in schema.args].index(a.name):
                    args.append(said(given[a.name]))
                else:
                    kwargs[a.name] = said(given[a.name])
        index = self.state.agreement.index[name]
        first = len(operands)
        failures: list = []
        for count in self._counts(schema):
            failures.clear()
            connection.executor.run_all([wire.Op(index, first, count, args, kwargs)], 0, failures.append)
            if not failures:
                break
            if f"where the client expects {count}" not in failures[0].text:
                return None
            first += count
        else:
            return None
        entries = [store.get(i) for i in range(first, first + count)]
        entries += [store.get(i) for i, a in enumerate(operands) if schema.args[0].is_write and a is given["self"]]
        found = [(e.array.copy(), e.label) for e in entries]
        return found if not private or any(isinstance(label, Rows) for _, label in found) else None

    def _counts(self, schema: Any) -> list[int]:
        returns = [x for x in schema.returns if not x.is_write]
        return [1, 2, 3, 4, 5, *range(6, 34)] if any(x.type == "Tensor[]" for x in returns) else [len(returns)]

    def _compare(self, name: str, given: dict, before: list, after: list | None, changed: set[int]) -> None:
        if after is None or [x[1] for x in before] != [x[1] for x in after]:
            self._differ(name, given, "its labels")
            return
        for (x, label), (y, _) in zip(before, after):
            if not isinstance(label, Rows):
                continue
            n = x.shape[label.dim]
            rows = np.frombuffer(label.order, np.int64) if label.order else np.arange(n)
            keep = np.flatnonzero(~np.isin(rows, list(changed)))
            if x.take(keep, label.dim).tobytes() != y.take(keep, label.dim).tobytes():
                self._differ(name, given, f"a result of {x.dtype} {x.shape}")

    def _differ(self, name: str, given: dict, what: str) -> None:
        self.differences[name] += 1
        shown = {
            k: (v.array.dtype.name, v.array.shape, v.array.strides, v.axis) if isinstance(v, Operand) else v
            for k, v in given.items()
        }
        self.shown.append(f"{name}: {what} differs in rows that were not changed, of {shown}")

    def play(self, each: int, seconds: float = float("inf")) -> None:
        """Run ``each`` calls with a labelled result for each operator; after twelve attempts without one, go on to the
        next."""
        end = time.monotonic() + seconds
        for _ in range(each):
            for name in self.names:
                for _ in range(12):
                    if time.monotonic() > end:
                        return
                    if self.try_one(name):
                        break


def what_runs(each: int, seed: int = 0) -> tuple[dict[str, list[str]], Fuzzer]:
    """Return what each operator with a portable row does to rows, in calls with a labelled result."""
    done: set[str] = set()

    def noted(kind: str, function: Any) -> Any:
        def primitive(*args: Any, **kwargs: Any) -> Any:
            moves = kind == row_library.LOOKUP and not isinstance(args[1], row_array.RowArray)
            done.add("move" if moves else kind)
            return function(*args, **kwargs)

        return primitive

    primitives, ufunc = dict(row_library.PRIMITIVES), row_array.RowArray.__array_ufunc__
    schemas = load()
    kept, found = dict(row_calls.KEPT), {name: set() for name in schemas if row_calls.functional(schemas[name])}
    try:
        row_calls.KEPT.update({name: ["move"] for name in found})
        row_library.PRIMITIVES.update({n: (kind, noted(kind, f)) for n, (kind, f) in primitives.items()})
        row_array.RowArray.__array_ufunc__ = noted("each", ufunc)
        fuzzer = Fuzzer(seed, found)
        for name in fuzzer.names:
            for _ in range(12 * each):
                done.clear()
                if fuzzer.labelled[name] < each and fuzzer.try_one(name):
                    found[name].add(max(done, key=list(row_calls.WORDS).index, default="move"))
    finally:
        row_array.RowArray.__array_ufunc__ = ufunc
        row_library.PRIMITIVES.update(primitives)
        row_calls.KEPT.clear()
        row_calls.KEPT.update(kept)
    order, state = list(row_calls.WORDS).index, fuzzer.state
    # The table's kernel computes a view's values, so the portable row says nothing about them if it computes.
    computing = {n for n in fuzzer.names if state.row(state.agreement.index[n]).views and found[n] - {"move"}}
    listed = {n: sorted(kinds, key=order) for n, kinds in sorted(found.items()) if kinds and n not in computing}
    return listed, fuzzer


def write() -> int:
    """Write the list of the operators that keep rows."""
    with np.errstate(all="ignore"):
        found, fuzzer = what_runs(8)
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(kinds)}" for name, kinds in found.items())
    row_calls.LIST.write_text(f"{{\n{text}\n}}\n")
    print(f"{len(found)} operators keep rows; bits differ in {dict(fuzzer.differences) or 'none'}")
    return bool(fuzzer.differences)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ops", nargs="*", help="names of operators, such as aten::mm; default: all on the list")
    parser.add_argument("--large", action="store_true", help="more rows")
    parser.add_argument("--write", action="store_true", help="write the list of operators from what runs")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    # The limit of a server's process: an operator that needs more memory is refused.
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if options.write:
        return write()
    fuzzer = Fuzzer(options.seed, options.ops)
    if options.large:
        fuzzer.lengths, fuzzer.most = LARGE, MOST_LARGE
    with np.errstate(all="ignore"):
        fuzzer.play(1 << 30, 60 * options.minutes)
    print(f"{len(fuzzer.names)} operators, {sum(fuzzer.labelled.values()):,} labelled calls")
    print("never labelled:", ", ".join(n for n in fuzzer.names if not fuzzer.labelled[n]) or "none")
    for name, count in fuzzer.differences.most_common():
        print(f"{name}: {count} differences, such as {next(s for s in fuzzer.shown if s.startswith(f'{name}: '))}")
    print("no bit differed" if not fuzzer.differences else f"{len(fuzzer.differences)} operators DIFFER")
    return bool(fuzzer.differences)


if __name__ == "__main__":
    sys.exit(main())
