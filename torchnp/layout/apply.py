"""Apply the rules of `torchnp.layout.named_rules`, so that a kernel's new results have torch's strides."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp.core.registry import NOT_GIVEN, Settle
from torchnp.core.schema import Schema
from torchnp.layout import stride_rules
from torchnp.layout.named_rules import Rule, contiguous, rules, rules_of

ndarray = np.ndarray


def is_plain(x: ndarray) -> bool:
    """Return whether an array is non-empty and has exact row-major strides, even in dimensions of size 1."""
    if not x.flags.c_contiguous or not x.size:
        return False
    return 1 not in x.shape or x.strides == _row_major(x.shape, x.itemsize)


@functools.lru_cache(maxsize=1 << 12)
def _row_major(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    return tuple(size * s for s in contiguous(shape))


def settler(schema: Schema) -> Settle | None:
    """Return the hook that gives a row's new results the strides of its layout rules; None for a row without rules."""
    parsed = rules_of(schema)
    if not parsed:
        return None
    texts = rules()[schema.name]
    fixed = set(texts) <= {"contiguous", "vectors"}
    turned = any("?" in text or text.partition(":")[0] in ("columns", "cut", "padded", "swept") for text in texts)
    names = [a.name for a in schema.args]
    of_list = len(schema.returns) == 1 and schema.returns[0].type.endswith("[]")

    def settle(out: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        # Row-major results are already right if the arguments are row-major too. Most calls end here.
        if not turned and _are_plain((out,)) and (fixed or _asks_nothing(args, kwargs)):
            return out

        def given(i: int) -> Any:
            return args[i] if i < len(args) and args[i] is not NOT_GIVEN else kwargs.get(names[i])

        def one(x: Any, rule: Rule | None, where: int) -> Any:
            """Lay out one result; return it unchanged if it shares an argument's memory."""
            if type(x) is not ndarray or rule is None or not x.ndim or any(x is a for a in args):
                return x
            written = stride_rules.WRITTEN
            for target in (written.target, written.inplace):
                if type(target) is ndarray and target.shape == x.shape:
                    return x  # this result is copied into a target, which keeps its own strides
            strides = rule(x.shape, given, where)
            if strides == stride_rules.layout_of(x)[1] or len(strides) != x.ndim or _is_shared(x, args, kwargs):
                return x
            return stride_rules.place(x, strides)

        if of_list:
            return type(out)([one(x, parsed[0], i) for i, x in enumerate(out)])
        if type(out) is tuple:
            return tuple([one(x, rule, 0) for x, rule in zip(out, parsed)])
        return one(out, parsed[0], 0)

    return settle


def _asks_nothing(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Return whether the arguments imply row-major results: all tensors plain, and no memory format requested."""
    if not _are_plain(args):
        return False
    return not kwargs or (kwargs.get("memory_format") is None and _are_plain(kwargs.values()))


def _are_plain(values: Any) -> bool:
    """Return whether all arrays, including those in lists, are plain (`is_plain`) or 0-d."""
    for x in values:
        kind = type(x)
        if kind is ndarray:
            shape = x.shape
            if not x.flags.c_contiguous or 0 in shape or (1 in shape and not is_plain(x)):
                return False
        elif (kind is list or kind is tuple) and not _are_plain(x):
            return False
    return True


def settled(made: Callable[..., Any], schema: Schema) -> Callable[..., Any]:
    """Return a kernel whose results pass through the layout hook."""
    settle = settler(schema)
    if settle is None:
        return made
    return lambda *args, **kwargs: settle(made(*args, **kwargs), args, kwargs)


def _is_shared(x: ndarray, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Return whether a result may share an argument's memory."""
    for value in (*args, *kwargs.values()):
        for y in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(y, ndarray) and (x is y or np.may_share_memory(x, y)):
                return True
    return False
