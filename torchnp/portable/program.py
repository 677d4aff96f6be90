"""A loaded program on an array library."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp.portable import draws
from torchnp.portable.functionalize import functionalize
from torchnp.portable.interpreter import Interpreter, tier
from torchnp.portable.libraries import library_for
from torchnp.portable.rows import Array
from torchnp.runtime.graph import Meta
from torchnp.runtime.program import Constant, EffectToken, Program, Report, Stored, UserInput, check_constant
from torchnp.runtime.symbols import spell, symbols

State = dict[str, Any]
WRITTEN = "inputs/"


class PortableProgram(Program):
    """A program on the arrays of any library; `torchnp.load` with ``xp=`` reads it.

    Call it like the exported module. `pure` computes the same as a function of state and arguments without side
    effects, which the library can transform: ``jax.jit(p.pure)``, ``jax.grad``, ``jax.vmap``, ``jax.export``.

    Attributes
    ----------
    lib : ArrayLibrary
        The library.
    state : dict of str to array
        Parameters, buffers and constants by their names in the module. A call replaces the buffers that it changes.
    written : dict of str to array
        New values of the arguments to which the last call wrote; the arguments themselves do not change.
    """

    def __init__(self, program: Program, xp: Any, fallback: bool = True) -> None:
        graph, signature = functionalize(program.graph, program.signature)
        super().__init__(graph, signature, {})
        self.lib, self.fallback = library_for(xp), fallback
        self.state: State = {name: self.lib.from_numpy(x) for name, x in program.state.items()}
        self.written: dict[str, Array] = {}
        self._declined: set[str] = set()

    def __repr__(self) -> str:
        return (
            super()
            .__repr__()
            .replace("torchnp.runtime.Program", f"torchnp.portable.PortableProgram on {self.lib.name}")
        )

    def run(self, args: tuple, kwargs: dict[str, Any], report: Report | None = None) -> Any:
        if report is not None:
            raise ValueError("only programs on NumPy are profiled: use the library's own profiler")
        drawn = self.draw(*args, **kwargs) if self._draws else {}
        result, state = self.pure(self.state | drawn, *args, **kwargs)
        self.written = {k.removeprefix(WRITTEN): state.pop(k) for k in list(state) if k.startswith(WRITTEN)}
        self.state = state
        return result

    def pure(self, state: State, *args: Any, **kwargs: Any) -> tuple[Any, State]:
        """Run the program as a function without side effects.

        Parameters
        ----------
        state : dict
            The attribute `state`, possibly with other values. If the program draws random numbers and the call is
            traced, add the result of `draw`.
        *args, **kwargs
            The module's arguments, as arrays of the library.

        Returns
        -------
        tuple
            The result in the module's structure, and the new state. Its items ``inputs/NAME`` are the new values of
            arguments to which the program writes.

        Raises
        ------
        ValueError, RuntimeError, AssertionError
            The arguments do not fit, as in `torchnp.runtime.Program.run`.
        ValueNeeded
            An operator's size depends on values, inside a trace or on a lazy library.
        NotImplementedError
            An operator has no row, and ``fallback`` is off.
        """
        given = self.flatten(args, kwargs)
        values, sizes = self._bound(given, state)
        drawn = {k: v for k, v in state.items() if k.startswith(draws.PREFIX)}
        traced = self.lib.is_traced(*values.values())
        interpreter = Interpreter(self.lib, self.fallback, sizes, drawn, traced)
        results = interpreter.run(self.graph, [values[id(spec)] for spec in self._graph_inputs()])
        self._declined |= interpreter.declined
        new = {k: v for k, v in state.items() if not k.startswith(draws.PREFIX)}
        leaves = []
        for x, (kind, name) in zip(results, self.signature.outputs):
            if kind == "user":
                leaves.append(x)
            elif kind == "state":
                new[name] = x  # type: ignore[index]
            elif kind == "input":
                new[f"{WRITTEN}{name}"] = x
        return self.signature.gives.build(iter(leaves)), new

    @property
    def _draws(self) -> bool:
        """Return whether all random numbers can be drawn before a call; otherwise each operator draws when it runs."""
        random = [node for _, node in self.graph.walk() if draws.is_random(node) or draws.is_drawn(node)]
        at_top = {id(node) for node in self.graph.nodes}
        return bool(random) and all(draws.is_drawn(node) and id(node) in at_top for node in random)

    def draw(self, *args: Any, **kwargs: Any) -> State:
        """Draw the numbers of the program's random operators for these arguments, from `torchnp.default_generator`.

        Add them to the state of a traced call: ``jax.jit(p.pure)(p.state | p.draw(x), x)``. Only the arguments' shapes
        matter, not their values.
        """
        given = self.flatten(args, kwargs)
        values, sizes = self._bound(given, self.state)
        specs = [spec for spec in self.signature.inputs if isinstance(spec, UserInput) and spec.meta is None]
        found = draws.draw_all(self.graph, sizes, {spec.name: values[id(spec)] for spec in specs})
        return {key: [self.lib.from_numpy(x) for x in drawn] for key, drawn in found.items()}

    def as_numpy(self, x: Any) -> Any:
        return self.lib.to_numpy(x) if self.lib.is_array(x) else x

    # ------------------------------------------------------------ arguments

    def _bound(self, given: list[Any], state: State) -> tuple[dict[int, Any], dict[str, Any]]:
        """Return the value of each input, checked as in torch, and the symbols' values from the arguments' shapes."""
        values: dict[int, Any] = {}
        sizes: dict[str, Any] = {}
        rest = iter(zip(given, self._paths))
        for spec in self.signature.inputs:
            if isinstance(spec, Stored):
                values[id(spec)] = state[spec.target]
            elif isinstance(spec, EffectToken):
                values[id(spec)] = None
            else:
                value, path = next(rest)
                values[id(spec)] = self._argument(spec, value, path, sizes)
        for guard in self.signature.guards:
            guard.check(given)
        return values, sizes

    def _argument(self, spec: UserInput | Constant, value: Any, path: str, sizes: dict[str, Any]) -> Any:
        if isinstance(spec, Constant):
            check_constant(spec.value, value, path)
            return value
        if spec.meta is None:
            if type(value) in (float, bool) or self.lib.is_array(value):
                raise RuntimeError(f"Expected input at {path} to be an integer, but got {type(value)}")
            self._check_size(spec.size, value, sizes, path)
            return value
        if isinstance(value, (np.ndarray, np.generic)):
            value = self.lib.from_numpy(np.asarray(value))
        self._check_array(spec.meta, value, path)
        for i, (size, expected) in enumerate(zip(value.shape, spec.meta.shape)):
            self._check_size(expected, size, sizes, f"{path}.shape[{i}]")
        return value

    def _check_array(self, meta: Meta, value: Any, path: str) -> None:
        if not self.lib.is_array(value):
            raise RuntimeError(f"Expected input at {path} to be a tensor, but got {type(value)}")
        if len(value.shape) != len(meta.shape):
            wanted = f"torch.Size([{', '.join(map(spell, meta.shape))}])"
            got = f"torch.Size({list(value.shape)})"
            raise RuntimeError(
                f"Unexpected number of dimensions in input at {path}.shape (expected {wanted}, got {got})"
            )
        if self.lib.dtype_of(value) != meta.dtype:
            raise RuntimeError(f"Expected input at {path} to be of dtype {meta.dtype}, but got {value.dtype}")

    # ------------------------------------------------------------ what runs how

    def tiers(self) -> dict[str, str]:
        """Return how each operator runs on the library, by name.

        Returns
        -------
        dict
            ``own`` (a row specific to the library), ``standard`` (a row written with the array API standard), ``host``
            (the NumPy kernel, called on the host), ``drawn`` (random numbers, drawn on the host before the call),
            ``eager`` (result sizes depend on values, so it cannot run in a trace), ``number`` (functions of sizes), and
            ``refused`` (would run on the host, but ``fallback`` is off). A ``standard`` operator may still run on the
            host if the row does not cover a call's arguments; after such a call, it is listed as ``host``.
        """
        backed = {name for spec in self.signature.inputs if isinstance(spec, UserInput) for name in _names_in(spec)}
        found: dict[str, str] = {}
        for home, node in self.graph.walk():
            now = tier(self.lib, home, node, backed)
            if now in ("own", "standard") and node.target in self._declined:
                now = "host"
            if now in ("host", "eager") and not self.fallback:
                now = "refused"
            if _WORST.index(now) > _WORST.index(found.get(node.target, _WORST[0])):
                found[node.target] = now
        return dict(sorted(found.items()))


_WORST = ("", "number", "own", "standard", "drawn", "host", "eager", "refused")


def _names_in(spec: UserInput) -> set[str]:
    sizes = spec.meta.shape if spec.meta is not None else (spec.size,)
    return set().union(*(symbols(n) for n in sizes if n is not None), set())
