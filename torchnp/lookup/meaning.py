"""What a name means: of torch, of NumPy, an operator of Python, an argument, a difference."""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
from dataclasses import dataclass
from typing import Any

from torchnp.catalogue import CATALOGUE
from torchnp.lookup import alike, facts, instead, left_out, spellings
from torchnp.lookup.instead import Instead
from torchnp.lookup.naming import public_name
from torchnp.lookup.topics import TOPICS


@dataclass(frozen=True)
class Meaning:
    """What was found under a name.

    Attributes
    ----------
    name : str
        The name in the spelling of this package: ``torch.var``, ``F.relu``, ``Tensor.T``, ``np.var``, ``//``.
    kind : str
        ``"torch"``, ``"numpy"``, ``"python"``, ``"argument"``, ``"difference"`` or ``"left out"``.
    ops : tuple of str
        The operators, the one that is meant first; an overload where one was named.
    calls : tuple of Instead
        How to write it in the other library.
    says : str
        One sentence, where the operators do not say it all.
    """

    name: str
    kind: str
    ops: tuple[str, ...] = ()
    calls: tuple[Instead, ...] = ()
    says: str = ""


def meaning_of(asked: str) -> Meaning | None:
    """What a name means, in any of the spellings that Python code has for it; None if nothing has that name."""
    name = " ".join(asked.split())
    called = re.sub(CALL, "", name)
    for find in (_python, _overload, _torch, _numpy, _argument, _difference, _library):
        found = find(name if find is _python else called)
        if found is not None:
            return found
    topic = TOPICS.get(name.lower())
    return meaning_of(topic) if topic else None


# How names begin, and how this package spells that. The site's search reads the same patterns in JavaScript.
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
    """A name as this package spells it: ``torch.nn.functional.relu`` is ``F.relu``, ``numpy.var`` is ``np.var``."""
    for pattern, ours in SPELLED:
        name = re.sub(pattern, ours, name)
    return name


# ---------------------------------------------------------------- Python's own spellings


def _python(name: str) -> Meaning | None:
    known = name if name in spellings.PYTHON else spellings.ALSO.get(name) or spelled(name)
    if known not in spellings.PYTHON:
        return None
    ops = _ops(spellings.PYTHON[known])
    return Meaning(known, "python", ops, calls_of(known) or calls_of(ops[0].partition("::")[2]))


# ---------------------------------------------------------------- torch


def _overload(name: str) -> Meaning | None:
    """An op or an overload by the registry's own name: ``aten::var``, ``aten.var.correction``, ``var.dim``."""
    full = name.removeprefix("torch.ops.").removesuffix(".default")
    if "::" not in full:
        space, _, rest = full.partition(".")
        full = f"{space}::{rest}" if space in ("aten", "prims") and rest else f"aten::{full}"
    if full in facts.overloads() and ("::" in name or "." in name or full.partition("::")[2] == name):
        return _of_op(full, name) if name in (full, full.replace("::", ".")) or "." not in name else None
    if "." in full and full in facts.schemas():
        return Meaning(full, "torch", (full,))
    return None


def _of_op(op: str, name: str) -> Meaning:
    return Meaning(op if "::" in name else name, "torch", (op,), calls_of(op.partition("::")[2]))


def module_name(name: str) -> str:
    """The function behind a module: ``nn.CrossEntropyLoss`` is ``F.cross_entropy``, ``nn.LSTM`` is ``torch.lstm``."""
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
    """The operators that a public name of torch runs, by data or by rule; none for a name that runs none."""
    if name in spellings.TORCH:
        return _ops(spellings.TORCH[name])
    space, _, base = name.rpartition(".")
    prefix = f"{space.removeprefix('torch.')}_" if space in ("torch.linalg", "torch.fft", "torch.special") else ""
    if space not in ("torch", "Tensor", "F") and not prefix:
        return ()
    for op in (f"aten::{prefix}{base}", f"aten::{base}" if prefix else ""):
        if op in facts.overloads():
            return (op,)
    if name.startswith("Tensor.__") and f"aten::{base.strip('_')}" in facts.overloads():
        return (f"aten::{base.strip('_')}",)
    return ()


def _torch(name: str) -> Meaning | None:
    if name.startswith(("np.", "numpy.", "scipy.", "ndarray.", "rng.")):
        return None
    known = module_name(name) or spelled(name)
    candidates = [known] if "." in known else [f"{space}.{known}" for space in ("torch", "Tensor", "F")]
    if "." not in known and known[:1].isupper():  # a module by its name alone, or Tensor.T, and no class of torch's
        candidates = [f"Tensor.{known}", module_name(f"nn.{known}")]
    found = [meaning for c in candidates if (meaning := _public_of_torch(c)) is not None]
    if found:
        return next((meaning for meaning in found if meaning.ops), found[0])  # T is Tensor.T, and no class of torch's
    if "." not in known:
        return None
    # Overloads of an op under a name of Python's: torch.var.dim is var.dim.
    return (
        _overload(known.removeprefix("torch.").removeprefix("Tensor.")) if known != name or "torch." in name else None
    )


def _public_of_torch(name: str) -> Meaning | None:
    if reason := reason_left_out(name):
        return Meaning(name, "left out", calls=calls_of(name), says=reason)
    ops = torch_ops(name)
    return Meaning(name, "torch", ops, _calls_of_torch(name, ops)) if ops else None


def _calls_of_torch(name: str, ops: tuple[str, ...]) -> tuple[Instead, ...]:
    return calls_of(name) or calls_of(name.rpartition(".")[2]) or calls_of(ops[0].partition("::")[2])


@functools.cache
def _all_calls() -> dict[str, tuple[Instead, ...]]:
    found: dict[str, tuple[Instead, ...]] = {}
    for row in (*alike.ROWS, *instead.ROWS):
        name = row.name.partition(" ")[0] if row.name.startswith("np.") else row.name
        found[name] = (*found.get(name, ()), row)
    return found


def calls_of(name: str) -> tuple[Instead, ...]:
    """The calls that the data has for a name; one that writes in place has those of the other form."""
    return _all_calls().get(name) or _all_calls().get(name.removesuffix("_"), ())


# ---------------------------------------------------------------- NumPy


def numpy_name(name: str) -> str | None:
    """A name of NumPy as this package spells it, ``np.linalg.det``; None for what is none by its spelling."""
    known = spelled(name)
    return known if known.startswith("np.") and known != "np." else None


def numpy_ops(name: str) -> tuple[str, ...]:
    """The operators whose counterpart a public name of NumPy is, by data, as the rows say, or as the function's."""
    if name in spellings.NUMPY:
        return _ops(spellings.NUMPY[name])
    for full in dict.fromkeys((name.replace("np.", "numpy.", 1), _public(name))):
        if full in facts.ops_like():
            return tuple(facts.ops_like()[full])
    if name.startswith("np.ndarray."):
        return numpy_ops(f"np.{name.removeprefix('np.ndarray.').strip('_')}")
    return ()


def _public(name: str) -> str:
    """The public name of what a name stands for, which may be another: that of np.abs is numpy.absolute."""
    value: Any = importlib.import_module("numpy")
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
        if value is None:
            return ""
    return public_name(value) if callable(value) else ""


def _numpy(name: str) -> Meaning | None:
    if name.startswith("scipy."):
        ops = tuple(facts.ops_like().get(name, ()))
        return Meaning(name, "numpy", ops) if ops else None
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
        also = next(filter(None, map(calls_of, bases)), ()) if not calls or known == "np.pad" else ()
        return Meaning(known, "numpy", ops, (*also, *calls))
    if reason := reason_left_out(known):
        return Meaning(known, "left out", says=reason)
    return None


# ---------------------------------------------------------------- the rest


def _argument(name: str) -> Meaning | None:
    word = name.rstrip("=")
    if word in spellings.ARGUMENTS:
        quoted = tuple(row for row in instead.ROWS if f"'{word}'" in f"{row.numpy} {row.torch}")
        calls = (*calls_of(f"{word}="), *quoted)
        return Meaning(f"{word}=", "argument", _ops(spellings.ARGUMENTS[word]), calls)
    return None


def _difference(name: str) -> Meaning | None:
    if name not in CATALOGUE:
        return None
    ops = [op for op in facts.overloads() if any(name in f.differs for f in facts.bodies(op))]
    mine = [op for op in ops if any(name in f.differs and f.packet == op for f in facts.bodies(op))]
    return Meaning(name, "difference", tuple(mine))


def _library(name: str) -> Meaning | None:
    """An operator of another library: ``mylib::op``, ``torch.ops.mylib.op``, or ``op`` where nothing else is called so."""
    full = name.removeprefix("torch.ops.")
    space, mark, _ = full.partition("::" if "::" in full else ".")
    if mark:
        met = space.isidentifier() and facts.meet(space)
        return _overload(full if "::" in full else full.replace(".", "::", 1)) if met else None
    for space in facts.libraries_like("*"):
        with contextlib.suppress(ImportError):  # whoever names its namespace is told
            facts.meet(space)
    ops = tuple(op for op in facts.overloads() if not facts.is_own(op) and op.partition("::")[2] == name)
    return Meaning(ops[0], "torch", ops) if ops else None


def reason_left_out(name: str) -> str:
    """Why a public name is no function of arrays, or ""."""
    return next((why for why, patterns in _left_out() if patterns(name)), "")


@functools.cache
def _left_out() -> list[tuple[str, Any]]:
    return [(why, re.compile("|".join(map(_glob, names.split()))).fullmatch) for why, names in left_out.GROUPS]


def _glob(pattern: str) -> str:
    """A glob whose wildcards keep within one part of a dotted name."""
    return re.escape(pattern).replace(r"\*", r"[^.]*").replace(r"\?", r"[^.]").replace(r"\[A\-Z\]", "[A-Z]")


def _ops(bases: str) -> tuple[str, ...]:
    return tuple(f"aten::{base}" for base in bases.split())
