"""Calls from examples, for differences that no recorded or random call of an operator shows; counted separately.

The calls come from the difference's expression in the catalogue, and from the example of the difference that ``torchnp
explain`` shows for the operator. A call of one overload is also used for another if its schema takes the same
arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from torch.overrides import TorchFunctionMode

import torchnp
from torchnp.difference_catalogue import CATALOGUE
from torchnp.differences import evaluate

from ..case import Array, Case, Named, schemas
from ..generate.samples.opinfo import resolve
from ..generate.samples.recording import Recorder
from .natural_call import source_of

EXAMPLES = Path(torchnp.__file__).parent / "data" / "examples.tsv"

SHORT = frozenset({"cumsum-needs-dim"})  # these differences occur only in calls without the last argument
# More calls by difference, for operators for which neither expression shows it. {f} is replaced by the operator, such
# as torch.ops.aten.add.
MORE = {
    "number-wraps": ("{f}(torch.full((1,), 3, dtype=torch.uint8), 300, rounding_mode='floor')",
      "{f}(torch.full((1,), 3, dtype=torch.uint8), 300)",
                     "{f}(torch.full((1,), 3, dtype=torch.uint8), -1)",
                       "{f}(torch.full((3,), 3, dtype=torch.uint8), -1, 2)",
                       "{f}(torch.ones(1, dtype=torch.uint8), [2], -1)",
                     "{f}(-1, dtype=torch.uint8)", "{f}([2], -1, dtype=torch.uint8)",
                     "{f}(torch.ones(1, dtype=torch.uint8), -1, dtype=torch.uint8, device=torch.device('cpu'), requires_grad=False)"),
    "complex-zero-sign": ("{f}(torch.tensor([False]), torch.tensor([0.001 + 0j]))",
      "{f}(torch.tensor([-0.5 + 0j], dtype=torch.complex128))", "{f}(torch.zeros(64, dtype=torch.complex64))",
      "{f}(torch.full((64,), complex(-0.0, 1)))"),
    "quotient-overflow": ("{f}(torch.full((64,), 3e38), torch.full((64,), 1e-3))", "{f}(torch.full((64,), 3e38), 1e-3)",
      "{f}(3e38, torch.full((64,), 1e-3))"),
    "negative-strided": ("{f}_(torch.arange(64.0)[::4])",),
    "predicate-strided": ("{f}(torch.full((32,), torch.nan), out=torch.zeros(64, dtype=torch.bool)[::2])",),
    "fused-sum": ("{f}(torch.tensor([-1.00048828125]), torch.tensor([1.000244140625]), alpha=1.000244140625)",),
    "half-opmath": (
        "{f}(torch.arange(1, 9, dtype=torch.float16), 57.29577951308232)",
          "{f}(torch.arange(1, 9, dtype=torch.float16), 0.001, rounding_mode='floor')",
        "{f}(torch.arange(1, 9, dtype=torch.float16) / 7)",
        "{f}('ij,jk->ik', [torch.ones(2, 5000, dtype=torch.float16), torch.ones(5000, 2, dtype=torch.float16)])",
    ),
    "div-trunc-of-integers": ("{f}(torch.tensor([-7]), torch.tensor([2]), rounding_mode='trunc')",),
    "int-float-promotion": ("{f}([torch.ones(1, dtype=torch.int64), torch.ones(1, dtype=torch.float16)])",),
    "gcd-of-smallest": ("{f}(torch.tensor([-128, -128], dtype=torch.int8), torch.tensor([100, 3], dtype=torch.int8))",
                       "{f}(torch.tensor([-988758536], dtype=torch.int32), torch.tensor([44], dtype=torch.int32))"),
    "fill-overflow": ("{f}(torch.tensor([True]), 1e300, 0.0)", "{f}(torch.ones(1, dtype=torch.float16), 1e5)",
      "{f}(torch.ones(1, dtype=torch.uint8), 300)",
                      "{f}(torch.ones(2, dtype=torch.float16), 1e5)", "{f}(torch.ones(2, dtype=torch.float16), [2], 1e5)", "{f}(2j)",
                      "{f}(torch.ones(1), 1e300, dtype=torch.float32, device=torch.device('cpu'), requires_grad=False)"),
    "cumsum-accumulator": ("{f}(torch.full((100000,), 1.00001), 0)",),
    "half-cumsum": ("{f}(torch.full((300,), 1.01, dtype=torch.float16), 0)",),
    "cumsum-needs-dim": ("{f}(torch.ones(2, 2), 0)",),
    "no-integers-norm": ("{f}(torch.tensor([3, 4]), [0])", "{f}([torch.tensor([3, 4])])"),
    "half-norm": ("{f}([torch.full((2,), 300.0, dtype=torch.float16)])",),
    "no-complex-order": ("{f}([torch.tensor([1j, 2j])])",),
    "correction": ("{f}(torch.tensor([1.0, 2.0, 4.0]), [0], None)",),
      "power-of-bools": ("{f}(torch.tensor([True]), torch.tensor([True]))",),
    "float-functions-refuse-integers": ("{f}(torch.tensor([True]), torch.tensor([True]))",),
    "overlap-order": ("{f}_((x := torch.arange(1.0, 7.0).reshape(2, 3))[:, 1:], x[:, :-1])",),
    "overlap-operand": ("{f}_((x := torch.ones(2, 2)), x[0])",),
    "fill-0d": ("{f}(torch.zeros(2), torch.ones(1))", "{f}(torch.zeros(2), 0, torch.tensor([0]), torch.ones(1))"),
    "no-mixed-writes": ("{f}(torch.zeros(2), 0, torch.tensor([0]), torch.ones(1, dtype=torch.float64))",
                        "{f}(torch.zeros(2), torch.tensor([0]), torch.ones(1, dtype=torch.float64))",
                          "{f}(torch.zeros(2), [torch.tensor([0])], torch.ones(1, dtype=torch.float64))",
                        "{f}(torch.zeros(1, dtype=torch.float64), torch.tensor([True]), torch.ones(1))"),
    "memory-format-fits": ("{f}(torch.zeros(2), memory_format=torch.channels_last)",
      "{f}(torch.zeros(2), dtype=torch.float64, memory_format=torch.channels_last)",
      "{f}(torch.zeros(2), 1, memory_format=torch.channels_last)",
                           "{f}(torch.zeros(2), [2], memory_format=torch.channels_last)",
                             "{f}(torch.zeros(2), torch.zeros(2), memory_format=torch.channels_last)"),
    "empty-dim": ("{f}(torch.ones(2, 3), 2, [])",),
    "missing-kernel": (
        "{f}(torch.ones(2, 2, dtype=torch.uint32), torch.ones(2, 2, dtype=torch.uint32))", "{f}(torch.ones(2, 2, dtype=torch.uint32))",
        "{f}(torch.tensor([True]), torch.tensor([True]))", "{f}(torch.tensor([1j]), decimals=1)",
          "{f}(torch.ones(2, dtype=torch.uint32), 0)", "{f}(2, dtype=torch.complex64)",
        "{f}(torch.zeros(2, 2, dtype=torch.uint16), [1])",
        "{f}([2], mean=0.0, std=1.0, dtype=torch.int64, device='cpu', requires_grad=False)",
          "{f}([2], low=0.0, high=1.0, dtype=torch.int64, device='cpu', stride=[1])",),
    "gather-negative": ("{f}(torch.ones(2, 2), torch.tensor([-1]))", "{f}(torch.ones(2), 0, torch.tensor([-1]), torch.ones(1))",),
    "index-uint8-mask": ("{f}(torch.arange(3), [torch.tensor([0, 1, 1], dtype=torch.uint8)], torch.tensor([5, 6]))",),
    "index-write-overlap": ("torch.ops.aten.scatter_((x := torch.ones(2)), 0, torch.tensor([0, 1]), x)",
      "torch.ops.aten.scatter_add_((x := torch.ones(2)), 0, torch.tensor([0, 1]), x)",
      "torch.ops.aten.index_put_((x := torch.ones(2)), [torch.tensor([0, 1])], x)"),
    "scatter-of-its-shape": ("{f}(torch.zeros(2, 2), torch.ones(1), 0, 0)", "{f}(torch.zeros(2, 2), torch.ones(1))",
      "{f}(torch.zeros(4), torch.ones(1), [2], [1])"),
    "pad-needs-batch": ("{f}(torch.ones(4), [1, 1], mode='reflect')",),
    "pad-crops": ("{f}(torch.ones(1, 3, 3, 3, 3), [-1, 0, 0, 0, 0, 0])", "{f}(torch.ones(1, 3, 3), [-1, 0], 1)"),
    "complex-infinities": ("{f}(torch.tensor([complex(0.1, torch.inf)], dtype=torch.complex128))",
      "{f}(torch.full((64,), complex(0.1, torch.inf)))"),
    "no-half-fft": ("{f}(torch.ones(2, dtype=torch.float16), dim=[0], onesided=True)",),
    "einsum-ellipsis": ("{f}('i...->i', [torch.ones(2, 3)])",),
    "no-mixed-products": ("{f}([torch.ones(1, 1), torch.ones(1, 1, dtype=torch.float64)])",
        "{f}(torch.ones(1, 1), torch.ones(1, 1, dtype=torch.float64), [1], [0])",
        "{f}('ij,jk->ik', [torch.ones(1, 1), torch.ones(1, 1, dtype=torch.float64)])"),
    "no-bool-product": ("{f}(torch.ones(1, 1, dtype=torch.bool), torch.ones(1, 1, dtype=torch.bool), [1], [0])",
                        "{f}('ij,jk->ik', [torch.ones(2, 2, dtype=torch.bool), torch.ones(2, 2, dtype=torch.bool)])"),
    "three-tier-promotion": ("{f}(torch.ones(1), torch.tensor(1.0, dtype=torch.float64))",),
    "coarse-special": ("{f}(1, torch.tensor([2.0], dtype=torch.float64))",),
    "bessel-of-least": ("{f}(torch.tensor([1e-45]))",), "zeta-of-infinity": ("{f}(2, torch.tensor([torch.inf]))",),
    "split-takes-sizes": ("{f}(torch.arange(6), 2)",), "default-dtype": ("{f}([2])",), "svd-reduced": ("{f}(torch.ones(2, 1))",),
    "qr-mode-r": ("{f}(torch.ones(2, 2), 'r')",), "cast-is-itself": ("{f}(torch.zeros(1, dtype=torch.int32))",),

    "log-normal-defaults": ("{f}(torch.ones(1000))",), "random-complex": ("{f}(torch.ones(1000, dtype=torch.complex64))",),
    "isclose-of-integers": ("{f}(torch.tensor([16777217]), torch.tensor([16777216]), 0.0, 0.5)",),
    "index-put-needs-index": ("{f}(torch.arange(2), [None], torch.tensor(1))",),
    "negative-tolerance": ("{f}(torch.ones(1), torch.ones(1), rtol=-1.0)",),
}  # fmt: skip


@cache
def examples() -> dict[tuple[str, str], str]:
    """Return the example expressions in torch by operator and difference."""
    rows = (line.split("\t") for line in EXAMPLES.read_text(encoding="utf-8").splitlines()[1:])
    return {(row[0], row[1]): row[2] for row in rows}


class Above(TorchFunctionMode):
    """Also records calls from Python, because composite operators never reach the recorder."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = getattr(func, "__name__", "").partition(".")[0]
        found = resolve([name] if name.isidentifier() else [], args, kwargs or {})
        if found:
            self.recorder.see(found, args, kwargs or {})
        return func(*args, **(kwargs or {}))


@cache
def calls_beneath(expression: str) -> tuple[Case, ...]:
    """Return each distinct call that torch makes when it evaluates an expression."""
    cases: list[Case] = []
    recorder = Recorder(lambda op: True, cases.append)
    recorder.source = "examples"
    with Above(recorder), recorder:
        evaluate(expression, torch=torch, np=np, scipy=scipy, torchnp=torchnp)
    return tuple({c.digest: c for c in cases}.values())


def packet_of(op: str) -> str:
    return op.partition(".")[0]


def example_calls(ops: list[str], id: str) -> Iterator[Case]:
    """Yield calls of an operator's overloads that may show a difference: its example's, the catalogue's, `MORE`."""
    packet = packet_of(ops[0])
    row = CATALOGUE[id]
    more = [text.format(f=f"torch.ops.{packet.replace('::', '.')}") for text in MORE.get(id, ())]
    for expression in dict.fromkeys((examples().get((packet, id), row.torch), row.torch, *more)):
        found = calls_beneath(expression)
        if id in SHORT:
            found = tuple(replace(c, args=c.args[:-1], digest="") for c in found)
        yield from (c for c in found if source_of(c.op) in ops)
        for case in found:
            yield from filter(None, (as_call_of(case, op) for op in ops if op != case.op))


def as_call_of(case: Case, op: str) -> Case | None:
    """Return a call as a call of another overload, or None if the other schema takes other arguments."""
    declared = schemas()[op].args
    names = {a.name: a for a in declared}
    if schemas()[case.op].mutates or len(case.args) > len(declared) or not set(case.kwargs) <= names.keys():
        return None
    given = [*zip(declared, case.args, strict=False), *((names[k], v) for k, v in case.kwargs.items())]
    missing = {a.name for a in declared if not a.has_default} - {a.name for a, _ in given}
    return None if missing or not all(fits_type(a.type, v) for a, v in given) else replace(case, op=op, digest="")


def fits_type(kind: str, value: Any) -> bool:
    """Return whether a value fits an argument type of a schema."""
    if value is None:
        return kind.endswith("?")
    kind = kind.removesuffix("?")
    if isinstance(value, list):
        inner = kind.partition("[")[0]
        return "[" in kind and all(fits_type(inner, v) for v in value)
    if isinstance(value, (Array, Named)):
        return kind == ("Tensor" if isinstance(value, Array) else "ScalarType")
    plain = {
        "Scalar": (bool, int, float, complex),
        "int": (int,),
        "SymInt": (int,),
        "float": (int, float),
        "bool": (bool,),
        "str": (str,),
    }
    return isinstance(value, plain.get(kind, ()))
