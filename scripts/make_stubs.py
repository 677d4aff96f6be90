"""Write torchnp/typed.pyi from the table: each op, with the signature and docstring of every overload.

Editors and type checkers use the file. ``--check`` only compares it, and exits with 1 if it is outdated.
"""

from __future__ import annotations

import inspect
import keyword
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import torchnp
from torchnp.core.schema import RESERVED, Argument, Schema
from torchnp.lookup.public_name import public_name

STUBS = Path(__file__).resolve().parent.parent / "torchnp" / "typed.pyi"
HEAD = '''"""The ops of `torchnp.aten` and `torchnp.prims` as editors and type checkers see them; by scripts/make_stubs.py.

Arguments have torch's names and order. A tensor is an array (or one of NumPy's scalars, where it is 0-d), a list
of tensors a sequence of arrays, a dtype what `numpy.dtype` takes or torch's name for it.
"""
# mypy: ignore-errors

from collections.abc import Sequence
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

# With an underscore, since overloads are called Tensor, Scalar, int and out.
_Array: TypeAlias = npt.NDArray[Any]
_Tensor: TypeAlias = npt.NDArray[Any] | np.generic
_Scalar: TypeAlias = bool | int | float | complex | np.generic
_ScalarType: TypeAlias = npt.DTypeLike
_bool: TypeAlias = bool
_int: TypeAlias = int
_float: TypeAlias = float
_str: TypeAlias = str
_list: TypeAlias = list
'''
GIVEN = {  # Python types of arguments, by the type in the schema
    "Tensor": "_Tensor", "Scalar": "_Scalar", "bool": "_bool", "int": "_int", "SymInt": "_int", "float": "_float",
    "str": "_str", "ScalarType": "_ScalarType",
}  # fmt: skip
WRITTEN = GIVEN | {"Tensor": "_Array"}
RETURNED = GIVEN | {"Tensor": "_Array", "ScalarType": "np.dtype[Any]", "Scalar": "Any"}


def typed(spelled: str, names: dict[str, str]) -> str:
    """Return the Python type for a type in a schema; a list argument with a fixed size may also be a single element."""
    optional = spelled.endswith("?")
    element, brackets, _ = spelled.removesuffix("?").partition("[")
    inner = names.get(element.removesuffix("?"), "Any")
    if element.endswith("?"):
        inner += " | None"
    if brackets and names is not RETURNED:
        size = re.search(r"\[(\d+)\]", spelled)
        inner = f"Sequence[{inner}]" + (f" | {inner}" if size else "")
    elif brackets:
        inner = f"_list[{inner}]"
    return f"{inner} | None" if optional else inner


def parameter(a: Argument, numbers: bool) -> str:
    name = RESERVED.get(a.name, a.name)
    name = f"{name}_" if keyword.iskeyword(name) else name
    kind = typed(a.type, WRITTEN if a.is_write else GIVEN)
    if numbers and a.type == "Tensor" and not a.is_write:
        kind = "_Tensor | _Scalar"
    return f"{name}: {kind}" + (" = ..." if a.has_default else "")


def signature(schema: Schema, first: str = "") -> str:
    """Return the parameters and the result type in Python's syntax."""
    numbers = schema.takes_numbers
    positional = [parameter(a, numbers) for a in schema.args if not a.kwonly]
    named = [parameter(a, numbers) for a in schema.args if a.kwonly]
    given = [first] * bool(first) + positional + (["*", *named] if named else [])
    results = [typed(r.type, RETURNED) for r in schema.returns]
    result = results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]" if results else "None"
    return f"({', '.join(given)}) -> {result}"


def quoted(text: str, indent: str) -> str:
    text = text.replace("\\", "\\\\").replace('"""', "'''").rstrip()
    text = text if not text.endswith('"') else text + " "
    return textwrap.indent(f'"""{text}"""', indent)


def described(name: str) -> str:
    """Return the docstring: what an overload does, and its NumPy counterpart."""
    row = torchnp.table[name]
    n = len(row.differences)
    known = f"{n or 'no'} known difference{'s' * (n > 1)}"
    like = public_name(row.like)
    counterpart = f"\n\nLike ``{like}``, with {known}: ``torchnp explain {row.schema.base}``." if like else ""
    return f"{inspect.cleandoc(row.__doc__ or '')}{counterpart}"


def op(base: str, names: list[str]) -> Iterator[str]:
    """Yield the lines of an op's class: its call accepts all overloads, and its attributes are the single overloads."""
    yield f"class _{base}:"
    yield quoted(described(names[0]), "    ")
    for name in names:
        if len(names) > 1:
            yield "    @overload"
        yield f"    def __call__{signature(torchnp.table.schemas[name], '_, /')}: ..."
    for name in names:
        attribute = torchnp.table.schemas[name].overload or "default"
        if keyword.iskeyword(attribute):  # only getattr can read such an attribute
            continue
        yield "    @staticmethod"
        yield f"    def {attribute}{signature(torchnp.table.schemas[name])}:"
        yield quoted(
            f"{inspect.cleandoc(torchnp.table[name].__doc__ or '')}\n\n``{torchnp.table.schemas[name]}``", "        "
        )
    yield "    def overloads(self) -> list[str]: ..."
    yield ""


def stubs() -> str:
    """Return the text of the whole file."""
    lines = [HEAD]
    for space in ("aten", "prims"):
        ops: dict[str, list[str]] = {}
        for name in torchnp.table:
            if name.startswith(f"{space}::"):
                ops.setdefault(torchnp.table.schemas[name].base, []).append(name)
        for base, names in ops.items():
            lines += op(f"{space}_{base}", names)
        lines.append(f"class _{space.capitalize()}:")
        lines += [f"    {base}: _{space}_{base}" for base in ops if not keyword.iskeyword(base)]
        lines += ["", f"{space}: _{space.capitalize()}", ""]
    return "\n".join(lines)


def main() -> int:
    new = stubs()
    if "--check" in sys.argv:
        stale = not STUBS.exists() or STUBS.read_text(encoding="utf-8") != new
        print(f"{STUBS.name} is " + ("stale: run scripts/make_stubs.py" if stale else "up to date"))
        return int(stale)
    STUBS.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
