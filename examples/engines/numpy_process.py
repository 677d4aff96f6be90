"""An engine of 46 NumPy functions in another process, without views and writes; torch's autograd runs above it."""

import itertools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import torchnp
from torchnp.engine import Engine

OPS = """add.Tensor sub.Tensor mul.Tensor div.Tensor neg abs exp log sqrt sin cos tanh erf floor sign sigmoid maximum
    minimum pow.Tensor_Tensor eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor logical_not logical_and
    logical_or bitwise_and.Tensor where.self sum.dim_IntList amax amin argmax cumsum mm bmm cat view_copy permute_copy
    slice_copy.Tensor expand_copy index_select gather scatter_add _to_copy"""
ARRAYS = {}  # in the other process, by number


def array(number):
    return ARRAYS[number]


def compute(op, number, args, kwargs, unused):
    """Run an operator in the other process, keep its result, and forget arrays that nobody refers to any more."""
    ARRAYS[number] = torchnp.table[op](*args, **kwargs) if op else args[0]
    for old in unused:
        ARRAYS.pop(old, None)


class Payload:
    """An array of the other process: pickled it is a number, and unpickled there the array."""

    def __init__(self, engine, op, *args, **kwargs):
        self.engine, self.number = engine, next(engine.numbers)
        unused, engine.unused = engine.unused, []
        engine.pool.submit(compute, op, self.number, args, kwargs, unused).result()

    def __reduce__(self):
        return array, (self.number,)

    def __del__(self):
        self.engine.unused.append(self.number)


class NumpyProcess(Engine):
    name, ops = "a NumPy process", [f"aten::{name}" for name in OPS.split()]

    def __init__(self):
        super().__init__()
        self.pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        self.numbers, self.unused = itertools.count(), []

    def upload(self, tensor):
        return Payload(self, "", tensor.numpy())

    def download(self, payload, spec):
        return self.pool.submit(array, payload.number).result()

    def run(self, call):
        return Payload(self, call.op, *call.args, **call.kwargs)
