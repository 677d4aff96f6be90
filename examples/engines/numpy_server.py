"""The other process of `numpy_process.py`: 46 functional NumPy operators, and no torch."""

import pickle
import sys

import torchnp

OPS = [
    "add.Tensor",
    "sub.Tensor",
    "mul.Tensor",
    "div.Tensor",
    "neg",
    "abs",
    "exp",
    "log",
    "sqrt",
    "sin",
    "cos",
    "tanh",
    "erf",
    "floor",
    "sign",
    "sigmoid",
    "maximum",
    "minimum",
    "pow.Tensor_Tensor",
    "eq.Tensor",
    "ne.Tensor",
    "lt.Tensor",
    "le.Tensor",
    "gt.Tensor",
    "ge.Tensor",
    "logical_not",
    "logical_and",
    "logical_or",
    "bitwise_and.Tensor",
    "where.self",
    "sum.dim_IntList",
    "amax",
    "amin",
    "argmax",
    "cumsum",
    "mm",
    "bmm",
    "cat",
    "view_copy",
    "permute_copy",
    "slice_copy.Tensor",
    "expand_copy",
    "index_select",
    "gather",
    "scatter_add",
    "_to_copy",
]
ARRAYS = {}


def array(number):
    return ARRAYS[number]


def answer(op, number, args=(), kwargs={}):
    if op == "forget":
        return ARRAYS.pop(number, None)
    if op == "values":
        return ARRAYS[number]
    ARRAYS[number] = args[0] if op == "keep" else torchnp.table[op](*args, **kwargs)


def serve():
    while sys.stdin.buffer.peek(1):
        try:
            result = answer(*pickle.load(sys.stdin.buffer))  # in which a payload of the engine's is its array
        except (TypeError, ValueError, IndexError, RuntimeError) as error:
            result = error
        sys.stdout.buffer.write(pickle.dumps(result))
        sys.stdout.buffer.flush()
