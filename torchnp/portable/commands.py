"""``torchnp requires --xp`` and ``torchnp export-stablehlo``; ``torchnp run --xp`` is in `torchnp.runtime.commands`."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from torchnp.portable.host_reasons import HOST_REASONS
from torchnp.portable.libraries import prepare
from torchnp.portable.load import load
from torchnp.portable.program import PortableProgram
from torchnp.runtime.commands import aligned
from torchnp.runtime.program import UserInput
from torchnp.runtime.symbols import evaluate, symbols

_MEANING = {
    "host": "the NumPy kernel, called on the host",
    "eager": "sizes depend on values: not inside a trace",
    "drawn": "random numbers, drawn on the host before the call",
    "refused": "no row",
}


def list_tiers(args: argparse.Namespace) -> int:
    """List a program's operators and how each runs on a library; return exit status 1 if one is refused."""
    prepare(args.xp)
    program = load(args.program, args.model, xp=args.xp)
    assert isinstance(program, PortableProgram)
    tiers = program.tiers()
    needed = program.requires()
    if args.json:
        operators = [
            {
                "name": r.name,
                "count": r.count,
                "dtypes": r.dtypes,
                "tier": tiers[r.name],
                "reason": _reason(r.name, tiers),
            }
            for r in needed
        ]
        print(json.dumps({"xp": program.lib.name, "operators": operators}, indent=1))
    else:
        rows = [("operator", "calls", "dtypes", program.lib.name, "reason")]
        rows += [(r.name, str(r.count), " ".join(r.dtypes), tiers[r.name], _reason(r.name, tiers)) for r in needed]
        print(aligned(rows))
        counts = Counter(tiers.values())
        listed = ", ".join(f"{n} {tier}" for tier, n in counts.most_common())
        print(f"\n{sum(r.count for r in needed)} calls of {len(needed)}: {listed}")
    return 1 if "refused" in tiers.values() else 0


def _reason(name: str, tiers: dict[str, str]) -> str:
    found = HOST_REASONS.get(name) if tiers[name] == "host" else None
    return found or _MEANING.get(tiers[name], "")


def export_stablehlo(args: argparse.Namespace) -> int:
    """Write a program as serialized StableHLO, which ``jax.export.deserialize`` reads."""
    prepare("jax")
    program = load(args.program, args.model, xp="jax")
    assert isinstance(program, PortableProgram)
    data = serialized(program, args.platforms.split(","))
    Path(args.out).write_bytes(data)
    shapes = ", ".join(f"{name} {text}" for name, text in program.inputs.items())
    print(f"{args.out}: {len(data)} bytes for {args.platforms}; takes {shapes}")
    return 0


def serialized(program: PortableProgram, platforms: list[str]) -> bytes:
    """Serialize a program on JAX with its weights; sizes that are dynamic in the archive stay dynamic.

    Parameters
    ----------
    program : PortableProgram
        A program that was loaded on JAX.
    platforms : list of str
        ``cpu``, ``cuda``, ``rocm`` or ``tpu``.

    Returns
    -------
    bytes
        The output of ``jax.export.Exported.serialize``.

    Raises
    ------
    ValueNeeded
        A size depends on values, or random numbers are drawn.
    """
    import jax
    import jax.export

    users = [spec for spec in program.signature.inputs if isinstance(spec, UserInput)]
    names = sorted({n for spec in users if spec.meta is not None for size in spec.meta.shape for n in symbols(size)})
    sizes: dict[str, Any] = {}
    if names:
        bounds = [f"{n} >= {max(program.signature.ranges.get(n, (1, None))[0] or 1, 1)}" for n in names]
        bounds += [
            f"{n} <= {high}" for n in names if (high := program.signature.ranges.get(n, (0, None))[1]) is not None
        ]
        sizes = dict(zip(names, jax.export.symbolic_shape(", ".join(names), constraints=bounds)))
    named: dict[str, Any] = {}
    for spec in users:
        if spec.meta is None:
            raise ValueError(f"the input {spec.name!r} is an integer, for which StableHLO has no place")
        shape = tuple(evaluate(n, sizes) for n in spec.meta.shape)
        named[spec.name] = jax.ShapeDtypeStruct(shape, program.lib.theirs(spec.meta.dtype))
    args, kwargs = program.arrange(named)
    function = jax.jit(lambda *args, **kwargs: program.pure(program.state, *args, **kwargs)[0])
    return bytes(jax.export.export(function, platforms=platforms)(*args, **kwargs).serialize())
