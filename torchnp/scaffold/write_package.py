"""Writes a package from the templates in ``templates``.

``$name`` and ``$Name`` in their paths and contents stand for the package's name.
"""

from __future__ import annotations

import importlib
import keyword
import re
from pathlib import Path
from string import Template

from torchnp.core.schema import RESERVED, Argument, Schema

TEMPLATES = Path(__file__).parent / "templates"


def new_engine(name: str, directory: Path) -> Path:
    """Write the package of an engine with 46 operators, its tests and its CI file; return its folder.

    Raises
    ------
    ValueError
        ``name`` is not a valid package name.
    FileExistsError
        The folder exists already.
    """
    return _write("engine", name, directory, {})


def new_kernels(name: str, library: str, module: str, directory: Path) -> Path:
    """Write a package with a row for each functional operator that a library has registered in torch; needs torch.

    Each row calls the library's own kernel until NumPy code takes its place. Operators that return only views or only
    write to their arguments get no row.

    Raises
    ------
    ValueError
        ``name`` is not a valid package name, or ``module`` registers no operators in the namespace ``library``.
    FileExistsError
        The folder exists already.
    """
    import torch  # noqa: F401  before the library, which registers its operators in it

    from torchnp.interop._private import registered_schemas

    importlib.import_module(module)
    found = {text_name: Schema(text, tags) for text_name, text, tags in registered_schemas(library)}
    rows, left = [], []
    for schema in found.values():
        if schema.mutates or schema.is_view or not schema.returns:
            left.append(schema)
        else:
            rows.append(schema)
    if not rows:
        raise ValueError(f"{module} registers no functional operator in the namespace {library!r} of torch.ops")
    bases = {schema.base for schema in rows}
    derived = [s for s in left if s.base.rstrip("_") in bases]
    others = [s.name for s in left if s not in derived]
    words = {
        "library": library,
        "module": module,
        "rows": "\n".join(_row(s, [d for d in derived if d.base.rstrip("_") == s.base]) for s in rows),
        "others": f"Without a row, as nothing functional computes them: {', '.join(others)}." if others else "",
    }
    return _write("kernels", name, directory, words)


def _row(schema: Schema, derived: list[Schema]) -> str:
    """Return the declaration of one row and of the forms that are derived from it."""
    space = schema.name.partition("::")[0]
    texts = "\n".join(f"    {s.text.removeprefix(f'{space}::')}" for s in (schema, *derived))
    marks = [a for a in schema.args if a.kwonly]
    parameters = [_parameter(a) for a in schema.args if not a.kwonly]
    parameters += ["*"] * bool(marks) + [_parameter(a) for a in marks]
    given = [f'"{schema.name}"'] + [
        _spelled(a.name) if not a.kwonly else f"{a.name}={_spelled(a.name)}" for a in schema.args
    ]
    function = re.sub(r"\W", "_", schema.name.partition("::")[2])
    return (
        f'\n@torchnp.kernel(\n    "{schema.name}",\n    schema="""\n{texts}\n""",\n)\n'
        f"def {function}({', '.join(parameters)}):\n"
        f"    return by_library({', '.join(given)})\n"
    )


def _spelled(name: str) -> str:
    return RESERVED.get(name, name)


def _parameter(a: Argument) -> str:
    return _spelled(a.name) if not a.has_default else f"{_spelled(a.name)}={a.default!r}"


def _write(kind: str, name: str, directory: Path, words: dict[str, str]) -> Path:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ValueError(f"{name!r} is no name of a package: small letters, digits and underscores, as my_engine")
    target = directory / name
    target.mkdir(parents=True)
    words = {"name": name, "Name": "".join(part.title() for part in name.split("_")).removesuffix("Engine"), **words}
    for source in sorted((TEMPLATES / kind).rglob("*.template")):
        path = target / Template(str(source.relative_to(TEMPLATES / kind)).replace("NAME", "$name")).substitute(words)
        path = path.with_name(path.name.removesuffix(".template"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(source.read_text(encoding="utf-8")).substitute(words), encoding="utf-8")
    return target
