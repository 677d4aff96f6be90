"""Repro scripts of about ten lines for small cases: simple arrays, an importable function, and one result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..backends.backend import Backend, Table
from ..case import USUAL, Array, Case, Named, schemas
from ..judge.tolerances import CLOSE, ToleranceRule

SMALL = 12  # largest number of elements of an array
SHOWN = ("wrong-value", "wrong-dtype", "wrong-shape", "spurious-error", "no-error")


def brief(
    case: Case,
    row: dict[str, Any],
    backend: Backend,
    rule: ToleranceRule,
    called: tuple[str, str] | None,
    literal: Callable,
) -> str:
    """Return the script, or an empty string if the case is not small or a short script cannot show the failure.

    ``called`` is the import and the expression of the backend's function; ``literal`` returns an array as text.
    """
    arrays, message = case.arrays(), row.get("shrunk_message") or row.get("message", "")
    if not is_short(case, row, backend, called, message):
        return ""
    try:
        given = [argument(x, i) for i, x in enumerate(arranged(case))]
    except TypeError:
        return ""
    inputs = [f"x{i} = {literal(a.on(case.buffers))}" for i, a in enumerate(arrays)]
    for_torch, for_numpy = (", ".join(text[k] for text in given) for k in (0, 1))
    namespace, _, rest = case.op.partition("::")
    base, _, overload = rest.partition(".")
    rtol, atol = (0.0, 0.0) if rule.kind in ("exact", "cast") or case.dtype not in CLOSE else CLOSE[case.dtype]
    assert called is not None
    lines = [
        f"# {case.op} on {backend.name}: {row['outcome']}: {' '.join(message.split())[:200]}",
        f"# case {row['id']}{', shrunk' if 'shrunk' in row else ''}; <VERSIONS>",
        "import sys, numpy as np, torch",
        "from numpy import inf, nan",
        *(line for line in called[0].splitlines() if line and not line.startswith("import numpy")),
        *inputs,
        f"torch_says = lambda: torch.ops.{namespace}.{base}.{overload or 'default'}({for_torch}).numpy()",
        f"backend_says = lambda: np.asarray({called[1]}({for_numpy}))",
    ]
    if row["outcome"] in ("spurious-error", "no-error"):
        other = "torch_says" if row["outcome"] == "spurious-error" else "backend_says"
        raising = "backend_says" if other == "torch_says" else "torch_says"
        lines += [
            f"try: print({raising}(), 'the same')",
            f"except Exception as e: sys.exit(print('{raising} raises', type(e).__name__, e, "
            f"'; {other} returns', {other}(), 'DIFFERENT') or 1)",
        ]
        return "\n".join(lines) + "\n"
    lines += [
        "want, got = torch_says(), backend_says()",
        f"same = want.dtype == got.dtype and want.shape == got.shape and np.allclose(got, want, {rtol}, {atol}, equal_nan=True)",
        'print("torch  ", repr(want), "\\nbackend", repr(got), "\\nthe same" if same else "\\nDIFFERENT")',
        "sys.exit(not same)",
    ]
    return "\n".join(lines) + "\n"


def is_short(case: Case, row: dict[str, Any], backend: Backend, called: tuple[str, str] | None, message: str) -> bool:
    """Return whether a short script can show a case: small arrays that share no memory, and a single result."""
    arrays, schema = case.arrays(), schemas()[case.op]
    plain = (
        called is not None and isinstance(backend, Table) and row["outcome"] in SHOWN and case.default_dtype == USUAL
    )
    alone = len({a.buffer for a in arrays}) == len(arrays) and all(a.is_whole(case.buffers[a.buffer]) for a in arrays)
    few = all(a.on(case.buffers).size <= SMALL and a.on(case.buffers).dtype.isbuiltin == 1 for a in arrays)
    of_signs = (
        "sign of zero" in message and "nan" not in message.partition(":")[2] and "inf" not in message.partition(":")[2]
    )
    one = str(schema.returns) == "Tensor" or [str(r) for r in schema.returns] == ["Tensor"]
    return plain and alone and few and one and not (schema.mutates or case.draws or of_signs)


def arranged(case: Case) -> list[tuple[str, Any]]:
    """Return (name, value) pairs of the arguments: positional names are empty, arrays are replaced by their index."""
    count = iter(range(len(case.arrays())))

    def numbered(x: Any) -> Any:
        if isinstance(x, Array):
            return Numbered(next(count))
        return [numbered(item) for item in x] if isinstance(x, (list, tuple)) else x

    return [("", numbered(x)) for x in case.args] + [(name, numbered(x)) for name, x in case.kwargs.items()]


class Numbered(int):
    """The index of an array."""


def argument(pair: tuple[str, Any], _: int) -> tuple[str, str]:
    """Return an argument as text for torch, and as text for a function on ndarrays."""
    name, value = pair
    prefix = f"{name}=" if name else ""
    return f"{prefix}{text(value, 'torch.tensor(x{})')}", f"{prefix}{text(value, 'x{}')}"


def text(value: Any, array: str) -> str:
    if isinstance(value, Numbered):
        return array.format(int(value))
    if isinstance(value, list):
        return "[" + ", ".join(text(item, array) for item in value) + "]"
    if isinstance(value, Named):
        if value.kind != "dtype" or value.name.startswith(("bfloat", "float8", "complex32")):
            raise TypeError(value.name)
        return f"torch.{value.name}" if "torch" in array else f"np.dtype('{value.name}')"
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return repr(value) if not isinstance(value, complex) else f"complex({value.real!r}, {value.imag!r})"
    raise TypeError(type(value).__name__)
