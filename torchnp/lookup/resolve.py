"""Find the meaning of a name: of torch or NumPy, of a Python operator, of an argument or of a difference."""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torchnp.difference_catalogue import CATALOGUE
from torchnp.lookup import argument_names, equivalents, name_of_code, not_operators, op_index, spellings
from torchnp.lookup.equivalents import Equivalent
from torchnp.lookup.public_name import public_name
from torchnp.lookup.synonyms import TOPICS


@dataclass(frozen=True)
class Meaning:
    """What a name means.

    Attributes
    ----------
    name : str
        The name as this package spells it: ``torch.var``, ``F.relu``, ``Tensor.T``, ``np.var``, ``//``.
    kind : str
        ``"torch"``, ``"numpy"``, ``"python"``, ``"argument"``, ``"difference"`` or ``"left out"``.
    ops : tuple of str
        The operators, the main one first. If the name is an overload's, the overload.
    calls : tuple of Equivalent
        How to write the operation in the other library.
    says : str
        One sentence, for a name that its operators do not explain completely.
    """

    name: str
    kind: str
    ops: tuple[str, ...] = ()
    calls: tuple[Equivalent, ...] = ()
    says: str = ""


def meaning_of(asked: str) -> Meaning | None:
    """Return the meaning of a name in any spelling that Python code uses; None if nothing has that name."""
    name = " ".join(asked.split())
    called = re.sub(CALL, "", name)
    # Copy means np.copy, not aten::copy, which Python code cannot call.
    hidden = called.isidentifier() and not is_called(f"aten::{called}")
    first = (
        _exactly,
        _keyword,
        _topic,
        *(() if hidden else (_overload,)),
        _code,
        _python,
        _torch,
        _numpy,
        _library,
        _argument,
        _difference,
    )
    for find in (*first, _overload, _elsewhere):
        found = find(name if find in _AS_WRITTEN else called)
        if found is not None:
            return found
    return None


def is_called(op: str) -> bool:
    """Return whether Python code has a public name for an operator."""
    return op_index.callers().get(op, "").rpartition(".")[2][:1] not in ("", "_")


def meanings_of(asked: str) -> tuple[list[Meaning], list[str]]:
    """Return the meanings of a name, a topic, or several names joined by commas, spaces or "and".

    The second result is a list of the unknown names.
    """
    name = " ".join(asked.split())
    topic = TOPICS.get(name.lower().rstrip("?"))
    alone = None if topic else meaning_of(name)
    if alone is not None:
        return [alone], []
    topic = topic or _topic_within(name)
    parts = topic or [p for p in re.split(r",\s*|;\s*|\s+(?:and|or|vs\.?|versus)\s+", name) if p]
    if not topic and any(meaning_of(p) is None for p in parts):
        parts = name.replace(",", " ").replace(";", " ").split()
    found = {p: meaning_of(p) for p in parts if topic or p.lower() not in ("and", "or", "vs", "versus")}
    known = list(dict.fromkeys(m for m in found.values() if m is not None))
    unknown = [p for p, meaning in found.items() if meaning is None]
    return ([], [name]) if unknown and "." not in name else (known, unknown)


def _topic_within(phrase: str) -> tuple[str, ...]:
    """Return the names that `TOPICS` lists for the longest topic in a phrase; an empty tuple if it contains none."""
    if not re.fullmatch(r"[\w' ?-]+", phrase) or " " not in phrase:
        return ()
    text = f" {phrase.lower().rstrip('?')} "
    return TOPICS.get(max((t for t in TOPICS if f" {t} " in text), key=len, default=""), ())


# Patterns that rewrite names to this package's spelling. The site's search uses the same patterns in JavaScript.
CALL = r"\(.*\)$"
SPELLED = (
    *spellings.WRITTEN,
    (CALL, ""),
    (r"^(?:rng|(?:(?:np|numpy)\.)?random\.(?:Generator|RandomState))\.", "np.random."),
    (r"^(?:(?:np|numpy)\.)?ndarray\.", "np.ndarray."),
    (r"^numpy\.", "np."),
    (r"^(?:torch\.)?(?:nn\.functional|functional|F)\.", "F."),
    (r"^(?:torch\.)?[Tt]ensor\.", "Tensor."),
    (
        r"^x\.(?=(?:argpartition|astype|base|byteswap|choose|compress|conjugate|copy|fill|flags|flat|partition|ptp|"
        r"searchsorted|strides|tobytes|tofile|trace)$)",
        "np.ndarray.",
    ),
    (r"^x\.(?=\w+$)", "Tensor."),
    (r"^(?:torch\.)?(?=(?:linalg|fft|special)\.)", "torch."),
)


def spelled(name: str) -> str:
    """Return a name as this package spells it: ``np.var`` for ``numpy.var``, ``F.relu`` for ``nn.functional.relu``."""
    for pattern, ours in SPELLED:
        name = re.sub(pattern, ours, name)
    return name


# ---------------------------------------------------------------- Python's own spellings


def _exactly(name: str) -> Meaning | None:
    return _python(name) if name in spellings.PYTHON or name in spellings.ALSO else None


def _topic(name: str) -> Meaning | None:
    names = TOPICS.get(name.lower().rstrip("?"))
    return meaning_of(names[0]) if names else None


def _code(name: str) -> Meaning | None:
    """Return the meaning of a piece of code: an index, an operator, a call of a method."""
    known = name_of_code.name_of(name)
    if not known or known == name or (known.startswith("x.") and _of_a_library(name)):
        return None
    return meaning_of(known)


def _of_a_library(name: str) -> bool:
    space = name.partition(".")[0]
    return space not in name_of_code.LIBRARIES and bool(op_index.libraries_like(space))


def _python(name: str) -> Meaning | None:
    known = name if name in spellings.PYTHON else spellings.ALSO.get(name) or spelled(name)
    if known not in spellings.PYTHON:
        return None
    ops = _ops(spellings.PYTHON[known])
    return Meaning(known, "python", ops, calls_of(known) or calls_of(ops[0].partition("::")[2]))


# ---------------------------------------------------------------- torch


def _overload(name: str) -> Meaning | None:
    """Return the meaning of the registry's name of an op or overload: ``aten::var``, ``aten.var.correction``."""
    full = name.removeprefix("torch.ops.").removesuffix(".default")
    if "::" not in full:
        space, _, rest = full.partition(".")
        full = f"{space}::{rest}" if space in ("aten", "prims") and rest else f"aten::{full}"
    if full in op_index.overloads() and ("::" in name or "." in name or full.partition("::")[2] == name):
        return _of_op(full, name) if name in (full, full.replace("::", ".")) or "." not in name else None
    if "." in full and full in op_index.schemas():
        return Meaning(full, "torch", (full,))
    return None


def _of_op(op: str, name: str) -> Meaning:
    return Meaning(op if "::" in name else name, "torch", (op,), calls_of(op.partition("::")[2]))


def module_name(name: str) -> str:
    """Return the function that a module calls: ``F.cross_entropy`` for ``nn.CrossEntropyLoss``."""
    found = re.fullmatch(r"(?:torch\.)?nn\.([A-Z]\w*)", name)
    if not found:
        return ""
    if found[1] in spellings.MODULES:
        return spellings.MODULES[found[1]]
    if re.fullmatch(r"(Constant|Zero|Circular)Pad[123]d", found[1]):
        return "F.pad"
    snake = re.sub(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", found[1]).lower()
    guesses = [s for word in (found[1].lower(), snake) for s in (word, word.removesuffix("_loss"), word.rstrip("123d"))]
    return next((f"F.{s}" for s in guesses if torch_ops(f"F.{s}")), "")


def torch_ops(name: str) -> tuple[str, ...]:
    """Return the operators that a public torch name runs, from data or by rule; an empty tuple if it runs none."""
    if name in spellings.TORCH:
        return _ops(spellings.TORCH[name])
    if name not in op_index.torch_names():
        return ()
    space, _, base = name.rpartition(".")
    prefix = f"{space.removeprefix('torch.')}_" if space in ("torch.linalg", "torch.fft", "torch.special") else ""
    if space not in ("torch", "Tensor", "F") and not prefix:
        return ()
    for op in (f"aten::{prefix}{base}", f"aten::{base}" if prefix else ""):
        if op in op_index.overloads():
            return (op,)
    if name.startswith("Tensor.__") and f"aten::{base.strip('_')}" in op_index.overloads():
        return (f"aten::{base.strip('_')}",)
    return ()


def _torch(name: str) -> Meaning | None:
    if name.startswith(("np.", "numpy.", "scipy.", "ndarray.", "rng.")):
        return None
    known = module_name(name) or spelled(name)
    candidates = [known] if "." in known else [f"{space}.{known}" for space in ("torch", "Tensor", "F")]
    # The bare name of a module, or an attribute as in Tensor.T, but not a class of torch.
    if "." not in known and known[:1].isupper():
        candidates = [f"Tensor.{known}", module_name(f"nn.{known}")]
    found = [meaning for c in candidates if (meaning := _public_of_torch(c)) is not None]
    if found:
        return next((meaning for meaning in found if meaning.ops), found[0])  # T means Tensor.T, not a class of torch
    if "." not in known:
        return None
    # An overload may follow a Python name: torch.var.dim means var.dim.
    overload = known.removeprefix("torch.").removeprefix("Tensor.")
    return _overload(overload) if "." in overload and (known != name or "torch." in name) else None


def _public_of_torch(name: str) -> Meaning | None:
    exists = name in op_index.torch_names() or name.partition(".")[2].partition(".")[0] in not_operators.MODULES
    if exists and (reason := reason_left_out(name)):
        return Meaning(name, "left out", calls=calls_of(name), says=reason)
    ops = torch_ops(name)
    return Meaning(name, "torch", ops, _calls_of_torch(name, ops)) if ops else None


def _calls_of_torch(name: str, ops: tuple[str, ...]) -> tuple[Equivalent, ...]:
    return calls_of(name) or calls_of(name.rpartition(".")[2]) or calls_of(ops[0].partition("::")[2])


@functools.cache
def _all_calls() -> dict[str, tuple[Equivalent, ...]]:
    found: dict[str, tuple[Equivalent, ...]] = {}
    for row in (*equivalents.EQUIVALENTS, *equivalents.NUMPY_ONLY):
        name = row.name.partition(" ")[0] if row.name.startswith("np.") else row.name
        found[name] = (*found.get(name, ()), row)
    return found


def calls_of(name: str) -> tuple[Equivalent, ...]:
    """Return the equivalent calls for a name; for an in-place name without any, the calls of its functional form."""
    return _all_calls().get(name) or _all_calls().get(name.removesuffix("_"), ())


# ---------------------------------------------------------------- NumPy


def numpy_name(name: str) -> str | None:
    """Return a NumPy name as this package spells it, ``np.linalg.det``; None if it is not a NumPy name."""
    known = spelled(name)
    return known if known.startswith("np.") and known != "np." else None


def numpy_ops(name: str) -> tuple[str, ...]:
    """Return the operators whose counterpart is a public NumPy name, from data or from the rows.

    Methods fall back to functions.
    """
    if name in spellings.NUMPY:
        return _ops(spellings.NUMPY[name])
    for full in dict.fromkeys((name.replace("np.", "numpy.", 1), _public(name))):
        if full in op_index.ops_like():
            return tuple(op_index.ops_like()[full])
    if name.startswith("np.ndarray."):
        return numpy_ops(f"np.{name.removeprefix('np.ndarray.').strip('_')}")
    return ()


def _public(name: str) -> str:
    """Return the public name of the object that a name refers to. The two may differ: np.abs is numpy.absolute."""
    value = _in_numpy(name)
    return public_name(value) if callable(value) else ""


def _in_numpy(name: str) -> Any:
    value: Any = importlib.import_module("numpy")
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
    return value


def exists_in_numpy(name: str) -> bool:
    """Return whether NumPy has a name: ``np.linalg.det``."""
    if not name.startswith("np."):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # reading a deprecated name warns
        return _in_numpy(name) is not None


def _numpy(name: str) -> Meaning | None:
    if name.startswith("scipy."):
        ops = _ops(spellings.SCIPY[name]) if name in spellings.SCIPY else tuple(op_index.ops_like().get(name, ()))
        return Meaning(name, "numpy", ops, calls_of(ops[0].partition("::")[2])) if ops else None
    known = numpy_name(name)
    if known is None:
        if "." in name or not name.isidentifier():
            return None
        guesses = (
            f"{space}.{name}" for space in ("np", "np.ndarray", "np.linalg", "np.random", "np.lib.stride_tricks")
        )
        return next((found for guess in guesses if (found := _numpy(guess)) is not None), None)
    ops, calls = numpy_ops(known), calls_of(known)
    if not ops and not calls and known.startswith("np.ndarray."):
        calls = calls_of(f"np.{known.removeprefix('np.ndarray.')}")
    calls = calls or calls_of(spellings.COUNTERPARTS.get(known, ""))
    if ops or calls:
        bases = [op.partition("::")[2] for op in ops]
        also = (
            next(filter(None, map(calls_of, bases)), ()) if all(" " in row.name for row in calls) else ()
        )  # all calls found are about one argument, as in "np.pad mode="
        return Meaning(known, "numpy", ops, (*also, *calls))
    if reason := reason_left_out(known):
        return Meaning(known, "left out", says=reason)
    return None


# ---------------------------------------------------------------- the rest

OF_TORCH = ("torch", "Tensor", "F", "torch.linalg", "torch.special", "torch.fft")
OF_NUMPY = ("np", "np.ndarray", "np.linalg", "np.fft", "np.random")


def _elsewhere(name: str) -> Meaning | None:
    """Return the meaning of a name in another namespace: Tensor.repeat for torch.repeat, torch.cat for np.cat."""
    known = spelled(name)
    space, _, base = known.rpartition(".")
    if space not in (*OF_TORCH, *OF_NUMPY) or not base.isidentifier() or exists_in_numpy(known):
        return None
    mine, others = (OF_TORCH, OF_NUMPY) if space in OF_TORCH else (OF_NUMPY, OF_TORCH)
    for spelling in [f"{there}.{base}{end}" for end in ("", "_") for there in (*mine, *others)]:
        is_torchs = spelling.rpartition(".")[0] in OF_TORCH
        exists = spelling in op_index.torch_names() if is_torchs else exists_in_numpy(spelling)
        found = (_public_of_torch if is_torchs else _numpy)(spelling) if exists else None
        if found is not None:
            return replace(found, says=found.says or f"There is no {known}")
    op = _overload(base) if space in OF_TORCH else None
    return op and replace(op, says=f"There is no {known}")


def _keyword(name: str) -> Meaning | None:
    """Return the meaning of an argument with its value: ``axis=0``."""
    return _argument(argument) if (argument := name_of_code.argument_of(name)) else None


def _argument(name: str) -> Meaning | None:
    word = name.rstrip("=")
    if word not in argument_names.ARGUMENTS and word in _takers() and (len(word) > 1 or name.endswith("=")):
        return Meaning(f"{word}=", "argument", _takers()[word], calls_of(f"{word}="))
    if word in argument_names.ARGUMENTS:
        quoted = tuple(row for row in equivalents.NUMPY_ONLY if f"'{word}'" in f"{row.numpy} {row.torch}")
        calls = (*calls_of(f"{word}="), *quoted)
        return Meaning(f"{word}=", "argument", _ops(argument_names.ARGUMENTS[word]), calls)
    return None


@functools.cache
def _takers() -> dict[str, tuple[str, ...]]:
    """Return the public operators that take an argument of each name, core ones first."""
    found: dict[str, dict[str, None]] = {}
    for op, names in op_index.overloads().items():
        if op in op_index.callers():
            for argument in (a.name for n in names for a in op_index.schemas()[n].args if not a.is_out):
                found.setdefault(argument, {})[op] = None
    order = lambda op: (not op_index.is_core(op), op.endswith("_"), len(op), op)
    return {argument: tuple(sorted(ops, key=order)[:8]) for argument, ops in found.items()}


def _difference(name: str) -> Meaning | None:
    if name not in CATALOGUE:
        return None
    ops = [op for op in op_index.overloads() if any(name in f.differs for f in op_index.bodies(op))]
    mine = [op for op in ops if any(name in f.differs and f.packet == op for f in op_index.bodies(op))]
    return Meaning(name, "difference", tuple(mine))


def _library(name: str) -> Meaning | None:
    """Return the meaning of another library's operator: ``mylib::op``, ``torch.ops.mylib.op``, or a bare ``op``."""
    full = name.removeprefix("torch.ops.")
    space, mark, _ = full.partition("::" if "::" in full else ".")
    if mark:
        met = space.isidentifier() and op_index.import_rows(space)
        return _overload(full if "::" in full else full.replace(".", "::", 1)) if met else None
    for space in op_index.libraries_like("*"):
        with contextlib.suppress(ImportError):  # an import error is reported only if its namespace is named
            op_index.import_rows(space)
    ops = tuple(op for op in op_index.overloads() if not op_index.is_own(op) and op.partition("::")[2] == name)
    return Meaning(ops[0], "torch", ops) if ops else None


def reason_left_out(name: str) -> str:
    """Return why a public name is not a function of arrays; "" if it is one, or the name is unknown."""
    return next((why for why, patterns in _left_out() if patterns(name)), "")


@functools.cache
def _left_out() -> list[tuple[str, Any]]:
    return [(why, re.compile("|".join(map(_glob, names.split()))).fullmatch) for why, names in not_operators.GROUPS]


def _glob(pattern: str) -> str:
    """Return the regular expression of a glob whose wildcards match within one part of a dotted name."""
    return re.escape(pattern).replace(r"\*", r"[^.]*").replace(r"\?", r"[^.]").replace(r"\[A\-Z\]", "[A-Z]")


def _ops(bases: str) -> tuple[str, ...]:
    return tuple(f"aten::{base}" for base in bases.split())


_AS_WRITTEN: tuple[Callable[[str], Meaning | None], ...] = (_exactly, _keyword, _topic, _code, _python)
