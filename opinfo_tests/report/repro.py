"""Repro scripts: a failing case as one Python file with literal inputs, which does not import the harness."""

from __future__ import annotations

import ast
import base64
import inspect
import re
import textwrap
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np

from ..backends.backend import Backend, Table
from ..backends.load import GROUP
from ..case import DTYPES, ORDER, Array, Case, Named, Seeded, widen
from ..judge.tolerances import CLOSE, rule_of
from ..judge.verdict import input_scale
from .report import some
from .repro_template import TEMPLATE
from .short_repro import brief

HERE = 'sys.path.append("")  # modules of the working directory count\n'
MOST = 3  # number of scripts for each overload and outcome
_FEW = 64  # arrays with at most this many elements are written element by element
_LARGEST = 200_000  # characters of one array's literal


class TooLargeError(ValueError):
    """Raised if no script can be written, usually because the inputs are too large."""


# ---------------------------------------------------------------- inputs as text


def literal(a: np.ndarray) -> str:
    """Return bit-exact Python text for a contiguous array: its elements if they are few, else its packed bytes."""
    name = next(n for n, dt in DTYPES.items() if dt == a.dtype)
    dtype = f"np.{name}" if a.dtype.isbuiltin == 1 else f"ml_dtypes.{name}"
    dtype = "np.bool_" if name == "bool" else dtype
    if a.size <= _FEW:
        text = f"np.array({values_text(widen(a))}, {dtype})"
        if 0 in a.shape[:-1]:
            text = f"np.zeros({a.shape}, {dtype})"
        if same_bits(text, a):
            return text
    raw = np.ascontiguousarray(a).tobytes()
    if len(raw) <= 256:
        text = f'unpack("{raw.hex()}", {dtype}, {a.shape})'
    else:
        packed = base64.b64encode(zlib.compress(raw, 9)).decode()
        if len(packed) > _LARGEST:
            raise TooLargeError(f"an input of {len(raw):,} bytes")
        lines = "\n".join(f'            "{packed[i : i + 100]}"' for i in range(0, len(packed), 100))
        text = f"unzip(\n{lines},\n            {dtype}, {a.shape})"
    return text


def same_bits(text: str, a: np.ndarray) -> bool:
    import ml_dtypes

    back = eval(text, {"np": np, "ml_dtypes": ml_dtypes, "nan": np.nan, "inf": np.inf})
    return back.shape == a.shape and back.tobytes() == a.tobytes()


def values_text(a: np.ndarray) -> str:
    if a.ndim:
        return "[" + ", ".join(values_text(x) for x in a) + "]"
    value = a.item()
    # complex(re, im), because a sum of parts loses NaN, infinity and the sign of zero
    return f"complex({value.real!r}, {value.imag!r})" if isinstance(value, complex) else repr(value)


def memory_text(case: Case) -> str:
    """Return the argument buffers as text, each as an array in the dtype of the first argument that uses it."""
    lines = []
    for i, raw in enumerate(case.buffers):
        users = [a for a in case.arrays() if a.buffer == i]
        first = next((a for a in users if a.is_whole(raw)), users[0])
        dt = DTYPES[first.dtype]
        if first.is_whole(raw):
            held = first.on(case.buffers)
        elif raw.size % dt.itemsize == 0:
            held = raw.view(dt)
        else:
            held = raw
        lines.append(f"        {literal(held)},\n")
    return "[\n" + "".join(lines) + "    ]" if lines else "[]"


def argument_text(x: Any) -> str:
    """Return the text of an argument, which may call the script's functions ``array``, ``name`` and ``generator``."""
    if isinstance(x, Array):
        size = DTYPES[x.dtype].itemsize
        strides = tuple(s // size for s in x.strides)
        return f'array({x.buffer}, "{x.dtype}", {x.shape}, {strides}, {x.offset // size})'
    if isinstance(x, Named):
        return f'name("{x.kind}", "{x.name}")'
    if isinstance(x, Seeded):
        return f"generator({x.seed})"
    if isinstance(x, (list, tuple)):
        return "[" + ", ".join(map(argument_text, x)) + "]"
    if isinstance(x, complex):
        return f"complex({x.real!r}, {x.imag!r})"
    return repr(x)


# ---------------------------------------------------------------- the text that calls the backend


def runner_text(backend: Backend, op: str) -> tuple[str, str]:
    """Return the imports and the function ``mine(args, kwargs)`` with which a script calls a backend's ``op``.

    A backend may have a method ``repro(op)`` that returns these two texts. By default the script loads the backend by
    the name that it was loaded by here, and passes arguments as the harness does.
    """
    if hasattr(backend, "repro"):
        return backend.repro(op)
    call = "def mine(args, kwargs):\n    return {}(*args, **kwargs)\n"
    if type(backend) is Table:
        import torchnp

        if backend.table is torchnp.table:
            return "import torchnp", call.format(f'torchnp.table["{op}"]')
        f = backend.table[op]
        imported = importable(f)
        return (imported[0], call.format(imported[1])) if imported else ("", source_text(f, op))
    on_device = f'DEVICE = "{backend.device}"\n\n\n' if hasattr(backend, "device") else ""
    if type(backend).__module__.partition(".")[0] == "opinfo_tests" and on_device:
        compiler = getattr(backend, "compiler", None)
        if compiler is None:
            return "", on_device + call.format("TORCH_OP")
        if isinstance(compiler, str):
            called = "lambda *a, **k: TORCH_OP(*a, **k)"
            return "", on_device + call.format(f'torch.compile({called}, backend="{compiler}", dynamic=False)')
    imports, loaded = loading_text(backend)
    return imports, f"{on_device}{loaded}\n\n\ndef mine(args, kwargs):\n    return BACKEND.run({op!r}, args, kwargs)\n"


def called_text(backend: Backend, op: str) -> tuple[str, str] | None:
    """Return the import and the expression for a table's function, or None if it cannot be imported."""
    import torchnp

    if type(backend) is not Table or hasattr(backend, "repro"):
        return None
    return (
        ("import torchnp", f'torchnp.table["{op}"]')
        if backend.table is torchnp.table
        else importable(backend.table[op])
    )


def loading_text(backend: Backend) -> tuple[str, str]:
    """Return the imports and the code that create BACKEND by the name that the backend was loaded by."""
    name = backend.loaded_by
    if ":" in name:
        module, _, attribute = name.partition(":")
        imports, found = f"{HERE}import {module}", f"{module}.{attribute}"
    elif any(e.name == name for e in entry_points(group=GROUP)):
        imports = f"{HERE}from importlib.metadata import entry_points"
        found = f'entry_points(group="{GROUP}")["{name}"].load()'
    else:
        raise TooLargeError(f"{type(backend).__name__} has no name to be imported by, and no method repro(op)")
    made = "while isinstance(BACKEND, type) or not hasattr(BACKEND, 'run'):\n    BACKEND = BACKEND()"
    return imports, f"BACKEND = {found}\n{made}"


def importable(f: Callable) -> tuple[str, str] | None:
    """Return the import and the expression for a function, or None if it cannot be imported."""
    module = getattr(f, "__module__", None) or "numpy"
    name = getattr(f, "__qualname__", "") or getattr(f, "__name__", "")
    try:
        found: Any = __import__(module, fromlist=["_"])
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError):
        return None
    if found is not f or module == "__main__" or module.partition(".")[0] == "opinfo_tests":
        return None
    return ("", f"np.{name}") if module == "numpy" else (f"{HERE}import {module}", f"{module}.{name}")


def source_text(f: Callable, op: str) -> str:
    """Return a function ``mine`` that includes the source of a function that cannot be imported."""
    try:
        source = textwrap.dedent(inspect.getsource(f))
    except (OSError, TypeError):
        raise TooLargeError(f"{op} is a {type(f).__name__} without source") from None
    if source.lstrip().startswith(("def ", "@")):
        return f"{source.rstrip()}\n\n\ndef mine(args, kwargs):\n    return {f.__name__}(*args, **kwargs)\n"
    return f"f = {lambda_text(f, op)}\n\n\ndef mine(args, kwargs):\n    return f(*args, **kwargs)\n"


def lambda_text(f: Any, op: str) -> str:
    """Return a lambda's source. If its line has several lambdas, find it by the columns recorded in its code object."""
    source = "".join(inspect.findsource(f)[0])
    places = {(line, column) for line, _, column, _ in f.__code__.co_positions() if line and column}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Lambda) and node.lineno == f.__code__.co_firstlineno:
            body = node.body
            first, last = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
            if any(first <= place < last for place in places):
                return textwrap.dedent(ast.get_source_segment(source, node) or "")
    raise TooLargeError(f"{op} is a lambda whose source is not found")


# ---------------------------------------------------------------- scripts


def script(case: Case, row: dict[str, Any], backend: Backend) -> str:
    """Return the repro script for a case that failed as ``row`` describes."""
    from .report import header

    rule = rule_of(case)
    rtol, atol = CLOSE.get(case.dtype, (0.0, 0.0))
    if rule.double and case.dtype in ("float64", "complex128"):
        rtol = atol = rule.double
    head = header(backend.name)
    versions = ", ".join(f"{k} {head[k]}" for k in ("torch", "numpy", "ml_dtypes", "torchnp", "python"))
    if short := brief(case, row, backend, rule, called_text(backend, case.op), literal):
        return short.replace("<VERSIONS>", versions)
    imports, mine = runner_text(backend, case.op)
    args = "".join(f"        {argument_text(a)},\n" for a in case.args)
    kwargs = "".join(f'        "{k}": {argument_text(v)},\n' for k, v in case.kwargs.items())
    namespace, _, rest = case.op.partition("::")
    base, _, overload = rest.partition(".")
    fill = {
        "TITLE": f"{case.op} on {backend.name}: {row['outcome']}",
        "MESSAGE": "\n".join(textwrap.wrap(docstring(row.get("shrunk_message") or row.get("message", "")), 118)),
        "CASE": row["id"] + (", shrunk" if "shrunk" in row else ""),
        "SCHEMA": docstring(schema_text(case.op)), "VERSIONS": versions,
        "IMPORTS": f"\n{imports}\n" if imports else "",
        "RULE": f'KIND, RTOL, ATOL, SCALE = "{rule.kind}", {rtol}, {atol}, {input_scale(case)!r}\n'
                f"ULP, ZERO_SIGN, SEED = {rule.ulp}, {rule.zero_sign}, {case.seed if case.draws else None}\n"
                f"STRIDES = {backend.strides}",
        "OP": f"torch.ops.{namespace}.{base}.{overload or 'default'}",
        "DEFAULT": case.default_dtype,
        "MEMORY": memory_text(case), "MINE": mine.rstrip(),
        "ARGS": f"(\n{args}    )" if args else "()", "KWARGS": f"{{\n{kwargs}    }}" if kwargs else "{}",
    }  # fmt: skip
    return re.sub("|".join(rf"<{k}>" for k in fill), lambda m: fill[m.group()[1:-1]], TEMPLATE)


def docstring(text: str) -> str:
    """Escape text for a triple-quoted string."""
    return text.replace("\\", "\\\\").replace('"""', "'''")


def schema_text(op: str) -> str:
    from ..case import schemas

    return str(schemas()[op]) if op in schemas() else op


def issue_body(row: dict[str, Any], text: str) -> str:
    """Return the text of a Markdown issue about a failing row, which includes its script."""
    versions = next(
        (found[0] for line in text.splitlines() if (found := re.search(r"(?:^|; )torch \d.*", line))), ""
    ).removeprefix("; ")
    facts = {
        "outcome": row["outcome"], "dtype": row["dtype"], "schema": f"`{schema_text(row['op'])}`",
        "versions": versions, "case": f"`{row['id']}`", "sample": f"{row.get('sample', '')} {row.get('sample_dtype', '')}",
    }  # fmt: skip
    lines = [f"# `{row['op']}`: {row['outcome']} in {row['dtype']}", "", "| | |", "|---|---|"]
    lines += [f"| {k} | {v.replace('|', chr(92) + '|')} |" for k, v in facts.items()]
    lines += ["", fenced(row.get("message", "")), ""]
    if row.get("diagnosis"):
        lines += [row["diagnosis"], ""]
    lines += ["The call:", "", fenced(row.get("call", "")), ""]
    if "shrunk" in row:
        lines += ["The simplest call found that fails alike:", "", fenced(row["shrunk"]), ""]
        lines += [fenced(row["shrunk_message"]), ""]
    lines += ["This script prints both results and exits with 1 while they differ:", "", fenced(text, "python"), ""]
    return "\n".join(lines)


def fenced(text: str, language: str = "") -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


# ---------------------------------------------------------------- writing scripts


def find_case(row: dict[str, Any], seed: int = 0, order: int = ORDER) -> Case | None:
    """Return the case of a row, by recording its sample again: recording depends only on the sample."""
    from ..generate.samples.opinfo import samples_of
    from ..generate.samples.recording import Recorder
    from ..generate.task import Task

    found: list[Case] = []
    task = Task(row["sample"], row["sample_dtype"])
    keep = lambda case: found.append(case) if case.id == row["id"] else None
    recorder = Recorder(lambda op: op == row["op"], keep, relay=not task.is_drawn)
    for _ in samples_of(task, recorder, seed=seed, order=order):
        if found:
            break
    return found[0] if found else None


def choose(rows: Iterable[dict[str, Any]], most: int = MOST) -> list[dict[str, Any]]:
    """Return at most ``most`` failing rows per overload and outcome, preferably rows with a script and short calls."""
    taken: Counter[tuple[str, str]] = Counter()
    chosen = []
    for row in sorted(rows, key=lambda r: (r["op"], "repro" not in r, len(r.get("call", "")), r["id"])):
        key = row["op"], row["outcome"]
        taken[key] += 1
        if taken[key] <= most:
            chosen.append(row)
    return chosen


def write_repros(
    rows: list[dict[str, Any]],
    folder: Path,
    backend: Backend,
    seed: int = 0,
    order: int = ORDER,
    most: int = MOST,
    shrinker: Any = None,
) -> list[str]:
    """Write scripts and issue texts for failing rows; shrink the rows that ``shrinker`` has not tried yet.

    Return the lines to print.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chosen = choose(rows, most)
    lines, written = [], 0
    for row in chosen:
        try:
            late = shrinker is not None and row["id"] not in shrinker.tried
            case = find_case(row, seed, order) if late or "repro" not in row else None
            row = shrinker(row, case) if late else row
            text = row.get("repro") or (script(case, row, backend) if case else "")
        except TooLargeError as e:
            lines.append(f"{row['id']}: no script: {e}")
            continue
        if not text:
            lines.append(f"{row['id']}: the sample does not give this call again")
            continue
        stem = "repro_" + re.sub(r"\W+", "_", row["id"].removeprefix("aten::"))
        (folder / f"{stem}.py").write_text(text, encoding="utf-8")
        (folder / f"{stem}.md").write_text(issue_body(row, text), encoding="utf-8")
        written += 1
    left = len(rows) - len(chosen)
    alike = f"; {some(left, 'further failure')} of the same kinds ({most} are written for each overload and outcome)"
    return [*lines, f"{some(written, 'repro script')} in {folder}{alike if left else ''}"]
