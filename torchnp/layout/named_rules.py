"""Named layout rules, which say how torch lays out a row's results. `torchnp.layout.apply` applies them to kernels.

``data/layouts.tsv`` lists each row's rules, which were measured on torch. A rule is one of the names below; x and y
stand for arguments. A rule covers one result or all tensors of a list; a row with several results has one rule for
each.

- ``contiguous``: row-major. ``columns``: each matrix column-major, as LAPACK returns it. ``columns?x``: column-major,
  or row-major if x is false; ``contiguous?x``: the reverse.
- ``iterator``: the order that torch's iterator finds for the given tensors (all, or those named after a colon).
  ``promoted``: the same, after operands of other dtypes were converted to the common dtype, which makes them dense.
  ``floated``: as ``promoted``, but integers are converted to the default dtype; ``doubled``: all operands are converted
  to double precision. ``chosen``: as ``promoted``, but the first operand, a condition, is converted to bool. ``+0``: a
  number counts as an additional 0-d operand. ``twice``: for ops of two steps, the iterator's order for a result that
  already has the order of ``promoted``.
- ``like:x``: as ``empty_like(x)``; if the result's shape differs from x's, the iterator's order for the tensors named
  after x. ``asked:x``: as ``like:x``, unless ``memory_format=`` requests another format. ``same:x``: x's own strides,
  including gaps. ``format:x``: the memory format that x's strides suggest; with more names, x's dense format if all
  these tensors are dense in some format.
- ``volume:x,y``: as ``format:x`` for a batch of volumes; for a single volume, y's order if y is dense.
- ``joined:x``: the memory format that all tensors of the list x suggest.
- ``stacked:x``: the layout of ``cat`` of the list x, with the new dimension split off. ``indexed``: the layout that
  advanced indexing gives.
- ``lifted:x``: the format that x suggests when it is viewed as an image with one row. ``swept``: column-major, as
  ``nonzero`` returns it.
- ``real:x``: as ``promoted``, but row-major if x is complex. ``modulus:x``: as ``like`` if x is complex, else as
  ``promoted``.
- ``infinite:x``, ``finite:x``: the layouts of abs(x) == inf and of (x == x) * (abs(x) != inf), if x is not integer.
  ``imaginary:x``: the layout of the imaginary part of x compared with 0, if x is complex. In other cases, all three are
  as ``like``.
- ``grown:x,..``: row-major if the result has x's shape, else the iterator's order for the named tensors.
- ``each``: for a list, as ``promoted`` for the tensors at the result's index; ``quotients``: as ``floated`` for these
  tensors; ``+0`` as above.
- ``cut:x``: the iterator's order for slices of x along one dimension. ``padded:x``: the format that x suggests. For
  circular padding, the result is row-major instead; for constant padding that adds nothing, it has the layout of
  ``empty_like`` of the cropped x.
- ``vectors``: row-major if the result is 1-d or has no elements (torch returned no other results when measured).
- ``own``: the kernel's own strides.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.schema import Schema
from torchnp.layout import stride_rules
from torchnp.layout.stride_rules import Layout, Shape, Strides

ndarray = np.ndarray
DATA = Path(__file__).parent.parent / "data" / "layouts.tsv"
Given = Callable[[int], Any]  # an argument's value, by its position in the schema
# Takes the result's shape, the arguments, and the result's index in a list.
Rule = Callable[[Shape, Given, int], Strides]
NUMBER: Layout = ((), ())

contiguous = functools.lru_cache(maxsize=8192)(stride_rules.contiguous)
iterated = functools.lru_cache(maxsize=8192)(stride_rules.iterated)
preserved = functools.lru_cache(maxsize=8192)(stride_rules.preserved)
suggested = functools.lru_cache(maxsize=8192)(stride_rules.suggested)


@functools.cache
def rules() -> dict[str, tuple[str, ...]]:
    """Return the rules of each row's results, by the row's full name."""
    found = {}
    for line in DATA.read_text(encoding="utf-8").splitlines()[1:]:
        rule, _, names = line.partition("\t")
        for name in names.split():
            found[name if "::" in name else f"aten::{name}"] = tuple(rule.split())
    return found


# ---------------------------------------------------------------- rules by name


def _row_major(shape: Shape, given: Given, place: int) -> Strides:
    return contiguous(shape)


def _columns(shape: Shape, given: Given, place: int) -> Strides:
    return stride_rules.columns(shape)


def _unless_false(argument: int, rule: Rule, otherwise: Rule) -> Rule:
    return lambda shape, given, place: (otherwise if given(argument) is False else rule)(shape, given, place)


def _vectors(shape: Shape, given: Given, place: int) -> Strides:
    return contiguous(shape) if len(shape) == 1 or 0 in shape else ()


def _like(argument: int, *others: int) -> Rule:
    otherwise = _iterator("iterator", others, False)

    def rule(shape: Shape, given: Given, place: int) -> Strides:
        x = given(argument)
        x = x[place] if isinstance(x, (list, tuple)) else x
        if isinstance(x, ndarray) and x.shape == shape:
            return preserved(*stride_rules.layout_of(x))
        return otherwise(shape, given, place)

    return rule


def _same(argument: int) -> Rule:
    def rule(shape: Shape, given: Given, place: int) -> Strides:
        x = given(argument)
        x = x[place] if isinstance(x, (list, tuple)) else x
        if not isinstance(x, ndarray) or x.shape != shape:
            return contiguous(shape)
        own = stride_rules.layout_of(x)[1]
        overlaps = any(s == 0 and n > 1 for n, s in zip(shape, own))
        return preserved(shape, own) if overlaps else own

    return rule


def _asked(argument: int, memory_format: int) -> Rule:
    like = _like(argument)

    def rule(shape: Shape, given: Given, place: int) -> Strides:
        asked = given(memory_format)
        name = "preserve_format" if asked is None else stride_rules.format_name(asked)
        return like(shape, given, place) if name == "preserve_format" else stride_rules.in_format(shape, name)

    return rule


def _format(argument: int, *beside: int) -> Rule:
    def rule(shape: Shape, given: Given, place: int) -> Strides:
        x = given(argument)
        if not isinstance(x, ndarray) or x.ndim != len(shape):
            return contiguous(shape)
        others = [
            stride_rules.layout_of(y) for y in map(given, beside and (argument, *beside)) if isinstance(y, ndarray)
        ]
        return stride_rules.in_format(shape, stride_rules.suggested_beside(others, *stride_rules.layout_of(x)))

    return rule


def _volume(batch: int, lone: int) -> Rule:
    def rule(shape: Shape, given: Given, place: int) -> Strides:
        if len(shape) == 5:
            return stride_rules.in_format(shape, suggested(*stride_rules.layout_of(given(batch))))
        x = given(lone)
        last = not x.flags.c_contiguous and np.moveaxis(x, 0, -1).flags.c_contiguous
        return stride_rules.in_format((1, *shape), "channels_last_3d" if last else "contiguous_format")[1:]

    return rule


def _cut(argument: int) -> Rule:
    def rule(shape: Shape, given: Given, place: int) -> Strides:
        return iterated(((shape, stride_rules.layout_of(given(argument))[1]),))

    return rule


def _padded(argument: int, mode: int | None) -> Rule:
    by_format = _format(argument)

    def rule(shape: Shape, given: Given, place: int) -> Strides:
        how = None if mode is None else given(mode)
        if how in (2, "circular"):
            return contiguous(shape)
        if how not in (None, 3, "constant") or max(given(argument + 1), default=0) > 0:
            return by_format(shape, given, place)
        return preserved(shape, stride_rules.layout_of(given(argument))[1])

    return rule


def _joined(argument: int) -> Rule:
    def rule(shape: Shape, given: Given, place: int) -> Strides:
        parts = [stride_rules.layout_of(x) for x in given(argument)]
        return (
            stride_rules.in_format(shape, stride_rules.joined(parts))
            if len(parts[0][0]) == len(shape)
            else contiguous(shape)
        )

    return rule


def _iterator(kind: str, arguments: Sequence[int], number: bool) -> Rule:
    def rule(shape: Shape, given: Given, place: int) -> Strides:
        operands = [x for x in map(given, arguments) if x is not None]
        found = tuple(_layouts(kind, operands)) + (NUMBER,) * number
        together = all(_fits(n, shape) for n, _ in found) and np.broadcast_shapes(*(n for n, _ in found)) == shape
        return iterated(found) if together else contiguous(shape)

    return rule


def _twice(arguments: Sequence[int], number: bool) -> Rule:
    first = _iterator("promoted", arguments, False)
    return lambda shape, given, place: iterated(((shape, first(shape, given, place)),) + (NUMBER,) * number)


def _grown(arguments: Sequence[int]) -> Rule:
    iterator = _iterator("iterator", arguments, False)

    def rule(shape: Shape, given: Given, place: int) -> Strides:
        return contiguous(shape) if given(arguments[0]).shape == shape else iterator(shape, given, place)

    return rule


def _fits(sizes: Shape, shape: Shape) -> bool:
    """Return whether an operand broadcasts to the result; if not, torch's iterator did not include this operand."""
    return len(sizes) <= len(shape) and all(n in (1, m) for n, m in zip(sizes[::-1], shape[::-1]))


def _layouts(kind: str, operands: Sequence[Any]) -> list[Layout]:
    """Return the operands' layouts as the iterator sees them; a converted operand is dense."""
    found = [stride_rules.layout_of(x) if isinstance(x, ndarray) else NUMBER for x in operands]
    if kind == "iterator":
        return found
    if kind == "chosen":
        asked, at = operands[0].dtype, found[0]
        return [at if asked == dt.bool_ else (at[0], preserved(*at)), *_layouts("promoted", operands[1:])]
    common = _computed(kind, operands)
    return [(n, preserved(n, s)) if n and x.dtype != common else (n, s) for x, (n, s) in zip(operands, found)]


def _computed(kind: str, operands: Sequence[Any]) -> np.dtype | None:
    """Return the dtype to which torch converts operands in or before the iterator; None if it does not promote them."""
    if kind == "doubled":
        return dt.complex128 if any(isinstance(x, ndarray) and dt.is_complex(x.dtype) for x in operands) else dt.float64
    common = None
    with contextlib.suppress(RuntimeError):
        common = dt.result_type(*operands)
    return dt.get_default_dtype() if kind == "floated" and not (common and dt.is_inexact(common)) else common


# A number that is passed along with lists is an operand in some foreach ops. In others it only takes part in dtype
# promotion. In the rest, such as lerp, it does neither.
_WITH_OPERAND = ("add", "sub", "mul", "div")
_WITH_OPTION = ("clamp_max", "clamp_min", "maximum", "minimum", "pow")


def _each(kind: str, arguments: Sequence[int], number: bool, option: int | None = None) -> Rule:
    """Return the rule for tensors of a list.

    ``option`` is the position of a number that is not an operand but takes part in dtype promotion.
    """

    def rule(shape: Shape, given: Given, place: int) -> Strides:
        at = lambda x: x[place] if isinstance(x, (list, tuple)) else x
        arrays = [x for x in (at(given(i)) for i in arguments) if isinstance(x, ndarray)]
        beside = [] if option is None or given(option) is None else [at(given(option))]
        return iterated(tuple(_layouts(kind, [*arrays, *beside])[: len(arrays)]) + (NUMBER,) * number)

    return rule


def _stacked(argument: int) -> Rule:
    def rule(shape: Shape, given: Given, place: int) -> Strides:
        dim = given(argument + 1) or 0
        return stride_rules.stacked([stride_rules.layout_of(x) for x in given(argument)], dim % len(shape))

    return rule


def _lifted(argument: int) -> Rule:
    def rule(shape: Shape, given: Given, place: int) -> Strides:
        x = given(argument)
        if not isinstance(x, ndarray) or x.ndim != 3 or len(shape) != 3:
            return contiguous(shape)
        found = stride_rules.in_format(
            (*shape[:2], 1, shape[2]), suggested(*stride_rules.as_image(*stride_rules.layout_of(x)))
        )
        return *found[:2], found[3]

    return rule


def _real(argument: int) -> Rule:
    iterator = _iterator("promoted", [argument], False)

    def rule(shape: Shape, given: Given, place: int) -> Strides:
        return contiguous(shape) if dt.is_complex(given(argument).dtype) else iterator(shape, given, place)

    return rule


def _modulus(argument: int) -> Rule:
    like, iterator = _like(argument), _iterator("promoted", [argument], False)

    def rule(shape: Shape, given: Given, place: int) -> Strides:
        return (like if dt.is_complex(given(argument).dtype) else iterator)(shape, given, place)

    return rule


def _asking(argument: int, kind: str) -> Rule:
    like = _like(argument)

    def rule(shape: Shape, given: Given, place: int) -> Strides:
        x = given(argument)
        if not (dt.is_complex(x.dtype) if kind == "imaginary" else dt.is_inexact(x.dtype)):
            return like(shape, given, place)
        steps = stride_rules.layout_of(x)[1]
        # The strides of a view of the real or imaginary part.
        own = shape, tuple(2 * s for s in steps) if dt.is_complex(x.dtype) else steps
        if kind == "imaginary":
            return iterated((own, NUMBER))
        same = shape, iterated((own,))
        bounded = iterated((same, NUMBER))
        return bounded if kind == "infinite" else iterated((same, (shape, bounded)))

    return rule


def _indexed(argument: int) -> Rule:
    def rule(shape: Shape, given: Given, place: int) -> Strides:
        x, found, narrow = given(argument), list[Layout | None](), set[int]()
        for index in given(argument + 1):
            if index is None:
                found.append(None)
            elif index.dtype in (dt.bool_, dt.uint8):
                found += [((int(np.count_nonzero(index)),), (1,))] * index.ndim
            else:
                if index.dtype != dt.int64:
                    narrow.add(len(found))
                found.append(stride_rules.layout_of(index))
        if narrow:  # torch converts narrower indices after it has expanded them
            whole = np.broadcast_shapes(*(own[0] for own in found if own is not None))
            for i in narrow:
                found[i] = whole, preserved(whole, stride_rules.expanded(found[i] or NUMBER, whole))
        return stride_rules.indexed(stride_rules.layout_of(x), found)

    return rule


def _swept(shape: Shape, given: Given, place: int) -> Strides:
    return stride_rules.in_order(shape, range(len(shape))[::-1], empty=True)


_FIXED: dict[str, Rule] = {"contiguous": _row_major, "columns": _columns, "vectors": _vectors, "swept": _swept}
_OF_ONE = {
    "cut": _cut,
    "stacked": _stacked,
    "lifted": _lifted,
    "real": _real,
    "modulus": _modulus,
    "indexed": _indexed,
    "same": _same,
    "joined": _joined,
}


def parse(text: str, schema: Schema) -> Rule | None:
    """Return the rule with a name; None for ``own``."""
    if text == "own":
        return None
    declared = [a.name for a in schema.args]
    if "?" in text:
        one, _, named = text.partition("?")
        other = {"columns": "contiguous", "contiguous": "columns"}[one]
        return _unless_false(declared.index(named), _FIXED[one], _FIXED[other])
    head, _, named = text.partition(":")
    kind, plus, _ = head.partition("+")
    arguments = [declared.index(n) for n in named.split(",")] if named else _tensors(schema)
    if kind in _FIXED:
        return _FIXED[kind]
    if kind == "format":
        return _format(*arguments)
    if kind == "volume":
        return _volume(arguments[0], arguments[-1])
    if kind == "grown":
        return _grown(arguments)
    if kind == "like":
        return _like(*arguments)
    if kind == "twice":
        return _twice(arguments, bool(plus))
    if kind == "asked":
        return _asked(arguments[0], declared.index("memory_format"))
    if kind == "padded":
        return _padded(arguments[0], declared.index("mode") if "mode" in declared else None)
    if kind in ("finite", "imaginary", "infinite"):
        return _asking(arguments[0], kind)
    if kind in _OF_ONE:
        return _OF_ONE[kind](arguments[0])
    if kind in ("each", "quotients"):
        base = schema.base.removeprefix("_foreach_") if schema.overload.startswith("Scalar") else ""
        operand, option = bool(plus) or base in _WITH_OPERAND, 1 if base in _WITH_OPTION else None
        return _each("promoted" if kind == "each" else "floated", arguments, operand, option)
    if kind not in ("iterator", "promoted", "floated", "doubled", "chosen"):
        raise ValueError(f"{schema.name}: no rule of layout is called {text!r}")
    return _iterator(kind, arguments, bool(plus))


def _tensors(schema: Schema) -> list[int]:
    return [i for i, a in enumerate(schema.args) if a.is_tensor and not a.is_out]


def rules_of(schema: Schema) -> list[Rule | None]:
    """Return one rule per result of a row; an empty list if no result has a rule.

    None in place of a rule means that the result keeps the kernel's strides.
    """
    parsed = [parse(text, schema) for text in rules().get(schema.name, ())]
    if all(rule is None for rule in parsed):
        return []
    # When the data was measured, torch returned the remaining results only as 0-d tensors.
    return parsed + [_row_major] * (len(schema.returns) - len(parsed))
