"""Higher-order operators: branches, loops, maps and scans, which call graphs as functions of arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import torchnp
from torchnp.runtime.graph import Graph, Node
from torchnp.runtime.json_fields import ProgramError

ndarray = np.ndarray
Function = Callable[..., list]  # a graph as a function: takes its inputs, returns a list of its outputs


def _cond(pred: Any, when_true: Function, when_false: Function, operands: Sequence[Any]) -> list:
    return when_true(*operands) if _truth(pred) else when_false(*operands)


def _truth(pred: Any) -> bool:
    if isinstance(pred, ndarray) and pred.size != 1:
        kind = "no values" if not pred.size else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
    return bool(pred)


def _while_loop(go_on: Function, body: Function, carried: Sequence[Any], additional: Sequence[Any]) -> list:
    values = [x.copy() if isinstance(x, ndarray) else x for x in carried]
    while True:
        (more,) = go_on(*values, *additional)
        is_bool = isinstance(more, (bool, np.bool_)) or (
            isinstance(more, ndarray) and more.shape == () and more.dtype == bool
        )
        if not is_bool:
            raise RuntimeError(f"cond_fn must return a boolean scalar tensor or a boolean but got {more}")
        if not more:
            return values
        values = body(*values, *additional)


def _map(body: Function, xs: Sequence[ndarray], operands: Sequence[Any]) -> list:
    rows = [body(*row, *operands) for row in zip(*map(torchnp.table["aten::unbind.int"], xs))]
    return [_stacked(list(column)) for column in zip(*rows)]


def _scan(combine: Function, init: Sequence[Any], xs: Sequence[ndarray], additional: Sequence[Any]) -> list:
    select = torchnp.table["aten::select.int"]
    carry: list[Any] = list(init)
    if not xs:
        return carry
    rows = []
    for i in range(max(len(xs[0]), 1)):  # for an empty input torch still selects the first element, and so raises
        found = combine(*carry, *[select(x, 0, i) for x in xs], *additional)
        carry, out = found[: len(init)], found[len(init) :]
        rows.append(out)
    return carry + [None if column[0] is None else _stacked(list(column)) for column in zip(*rows)]


def _stacked(column: list[Any]) -> ndarray:
    return torchnp.table["aten::stack"](column)


def _grad_mode(enabled: bool, body: Function, *operands: Any) -> list:
    """Run the body. Gradients are never recorded here, so the mode does not matter."""
    return body(*operands)


_FIELD = re.compile(r"\{\{|\}\}|\{(\w*)\}")


def _print(text: str, *args: Any, **kwargs: Any) -> None:
    """Print a format string as torch does. It comes from an archive, so its fields may only be names or positions."""
    places = iter(range(len(args)))

    def fill(found: re.Match) -> str:
        if found[1] is None:
            return found[0][0]
        at = next(places) if not found[1] else found[1]
        return str(kwargs[at] if at in kwargs else args[int(at)])

    print(_FIELD.sub(fill, text))


def _check_print(node: Node) -> None:
    text = node.args[0] if node.args else None
    if type(text) is not str or set(_FIELD.sub("", text)) & {"{", "}"}:
        raise ProgramError(f"{node.where}: its first argument is no text with fields like {{}} and {{name}}")
    names = [found[1] for found in _FIELD.finditer(text) if found[1] is not None]
    numbers = [int(n) for n in names if n.isascii() and n.isdigit()]
    wanted = {n for n in names if n and n not in node.kwargs and not (n.isascii() and n.isdigit())}
    if wanted or max([*numbers, names.count("") - 1], default=-1) >= len(node.args) - 1:
        raise ProgramError(f"{node.where}: {text[:60]!r} has fields for which there are no values")


@dataclass(frozen=True)
class HigherOrder:
    """A higher-order operator.

    Attributes
    ----------
    run : callable
        Takes the node's arguments, with a function instead of each graph.
    takes : str
        The kinds of its arguments in order: ``g`` a graph, ``l`` a list, ``v`` a value, ``*`` any further values.
    inputs : callable or None
        Maps the arguments to the number of inputs that each graph must have.
    """

    run: Callable[..., Any]
    takes: str
    inputs: Callable[[list[Any]], int] | None = None

    def check(self, node: Node) -> None:
        """Refuse arguments of wrong kinds, and graphs with a wrong number of inputs."""
        if self.inputs is None:
            _check_print(node)
            return
        rest = self.takes.removesuffix("*")
        many = rest != self.takes
        if len(node.args) < len(rest) or (len(node.args) > len(rest) and not many) or node.kwargs:
            raise ProgramError(f"{node.where}: it has {len(node.args)} arguments, and takes {len(rest)}")
        for i, x in enumerate(node.args):
            kind = rest[i] if i < len(rest) else "v"
            if (kind == "g") != isinstance(x, Graph) or (kind == "l") != isinstance(x, list):
                kinds = {"g": "a graph", "l": "a list", "v": "a value"}
                raise ProgramError(f"{node.where}: argument {i} must be {kinds[kind]}")
        for x in node.args:
            if isinstance(x, Graph) and len(x.inputs) != (n := self.inputs(node.args)):
                raise ProgramError(f"{node.where}: {n} values for {len(x.inputs)} inputs")


HIGHER = {
    f"torch.ops.higher_order.{name}": op
    for name, op in {
        "cond": HigherOrder(_cond, "vggl", lambda args: len(args[3])),
        "while_loop": HigherOrder(_while_loop, "ggll", lambda args: len(args[2]) + len(args[3])),
        "map_impl": HigherOrder(_map, "gll", lambda args: len(args[1]) + len(args[2])),
        "scan": HigherOrder(_scan, "glll", lambda args: sum(map(len, args[1:]))),
        "wrap_with_set_grad_enabled": HigherOrder(_grad_mode, "vg*", lambda args: len(args) - 2),
        "print": HigherOrder(_print, "v*"),
    }.items()
}
