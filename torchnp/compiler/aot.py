"""The ``torch.compile`` backend: it lowers each compiler graph once and runs it on the tensors' own memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from functorch.compile import default_partition

import torchnp
from torchnp import random as engine
from torchnp.compiler._private import aot_autograd, keeping_nearest_upsampling
from torchnp.compiler.lowering import homes, kept_inputs, lower
from torchnp.compiler.one_core import is_small, one_core
from torchnp.dtypes import default_dtype
from torchnp.interop import convert
from torchnp.interop.convert import NUMPY_DTYPE, as_torchs, to_numpy
from torchnp.interop.kernel_runner import Runner
from torchnp.interop.out_arrays import counts_from_storage, on_storage
from torchnp.kernels.lu import LinAlgError
from torchnp.runtime.graph import Graph, Ref
from torchnp.runtime.loading import link
from torchnp.runtime.optimize import optimize
from torchnp.runtime.run import ExecutionPlan

ndarray = np.ndarray
_RUNNER = Runner(convert)


def backend(module: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compile a graph for ``torch.compile(model, backend="torchnp")``.

    AOTAutograd makes the forward and backward graphs, so torch itself handles training, views, in-place writes and
    dynamic shapes. `torchnp.table` computes each overload, and random numbers come from torch's generator.

    Parameters
    ----------
    module : torch.fx.GraphModule
        The graph that torch's compiler captured.
    example_inputs : sequence
        The tensors and sizes of the first call.
    **options
        ``options`` of ``torch.compile``: ``{"exact": True}`` gives the same bits as the table's kernels.

    Returns
    -------
    callable
        Takes the same inputs and returns the graph's outputs.

    Raises
    ------
    ProgramError
        The graph has operators that the table lacks (the error names all of them), tensors on devices other than the
        CPU, or sparse tensors.
    TypeError
        An option is unknown.
    """
    settings = dict(options.pop("options", None) or {})
    exact = settings.pop("exact", False)
    if given := [*settings, *(name for name, value in options.items() if value)]:
        raise TypeError(f"torch.compile with the backend 'torchnp' has no option {given[0]!r}")

    def compiled(
        module: torch.fx.GraphModule, example_inputs: Sequence[Any], training: bool = True
    ) -> Callable[[list[Any]], list[Any]]:
        graph = CompiledGraph(module, exact, training)

        def call(inputs: list[Any]) -> list[Any]:
            return graph(inputs)

        vars(call)["_boxed_call"] = True  # makes AOTAutograd pass the inputs in a list, so that they can be freed
        return call

    compiler = aot_autograd(
        fw_compiler=compiled,
        inference_compiler=partial(compiled, training=False),
        partition_fn=default_partition,
        keep_inference_input_mutations=True,
    )
    with keeping_nearest_upsampling():
        return compiler(module, example_inputs)


class CompiledGraph:
    """One graph as a function of tensors and sizes.

    ``training`` says that torch's own operators run between its calls.
    """

    def __init__(self, module: torch.fx.GraphModule, exact: bool, training: bool) -> None:
        self.graph = lower(module)
        link(self.graph)
        self._plan = ExecutionPlan(self.graph if exact else optimize(self.graph, {})[0])
        self._kept = [x for x in kept_inputs(module).values() if isinstance(x, torch.Tensor)]
        self._homes = homes(module)
        self._stream: Callable[[], AbstractContextManager] = on_torchs_stream if _draws(self.graph) else nullcontext
        self._cores: Callable[[], AbstractContextManager] = one_core if training and is_small(module) else nullcontext
        whole = any(counts_from_storage(s) for _, n in self.graph.walk() if (s := torchnp.table.schemas.get(n.target)))
        self._array = partial(on_storage, share=to_numpy) if whole else to_numpy
        self._dtype = NUMPY_DTYPE[torch.get_default_dtype()]  # the compiler guards on the default dtype
        given = len(self.graph.inputs) - len(self._kept)
        self._written = [i for i in _written(self.graph) if i < given]
        self._needed = {*self._written, *(home[1] for home in self._homes if home and home[0] == "input")}

    def __call__(self, inputs: list[Any]) -> list[Any]:
        values = [self._array(x) if isinstance(x, torch.Tensor) else x for x in (*inputs, *self._kept)]
        # Keep inputs with which a result may share memory, and inputs that must be written through a conjugate or
        # negative bit.
        kept = {i: (inputs[i], values[i]) for i in self._needed}
        inputs.clear()
        with self._settings():
            results = self._plan(values)
        for i in self._written:
            tensor, array = kept[i]
            if tensor.is_conj() or tensor.is_neg():
                tensor.copy_(convert.to_torch(array))
        roots: dict[int, tuple[torch.Tensor, ndarray]] = {}
        return [self._tensor(x, home, kept, roots) for x, home in zip(results, self._homes)]

    @contextmanager
    def _settings(self) -> Iterator[None]:
        """Set torch's default dtype, random state and use of cores while the graph runs."""
        try:
            with default_dtype(self._dtype), self._stream(), self._cores():
                yield
        except LinAlgError as error:
            raise as_torchs(error) from None

    def _tensor(
        self,
        x: Any,
        home: tuple[str, int] | None,
        kept: dict[int, tuple[Any, Any]],
        roots: dict[int, tuple[Any, ndarray]],
    ) -> Any:
        """Convert a result to a tensor that is on the same storage as in eager torch."""
        if not isinstance(x, ndarray):
            return x
        if home is None:
            root = _root(x)
            if isinstance(root.base, torch.Tensor):  # an argument's memory, although the compiler expects a new tensor
                return _RUNNER.rebase(root.base.detach(), root, x, certain=False)
            return convert.to_torch(x)
        place, number = home
        if place == "storage":
            if number not in roots:
                root = _root(x)
                roots[number] = convert.to_torch(root), root
            base, array = roots[number]
            return base if x is array else _RUNNER.rebase(base, array, x, certain=False)
        base, array = kept[number]
        return base if x is array else _RUNNER.rebase(base.detach(), array, x, certain=False)


def _root(x: ndarray) -> ndarray:
    """Return the array at the end of a view's chain of writable bases."""
    while isinstance(x.base, ndarray) and x.base.flags.writeable:
        x = x.base
    return x


def _draws(graph: Graph) -> bool:
    schemas = torchnp.table.schemas
    return any("nondeterministic_seeded" in s.tags for _, n in graph.walk() if (s := schemas.get(n.target)))


def _written(graph: Graph) -> list[int]:
    """Return the indices of the inputs to which nodes write."""
    names = {x.name: i for i, x in enumerate(graph.inputs) if isinstance(x, Ref)}
    found = set()
    for node in graph.nodes:
        schema = torchnp.table.schemas.get(node.target)
        for argument, x in zip(schema.args if schema else (), node.args):
            if argument.is_write and isinstance(x, Ref) and x.name in names:
                found.add(names[x.name])
    return sorted(found)


@contextmanager
def on_torchs_stream() -> Iterator[None]:
    """Give torchnp's default generator torch's random state, and advance torch's generator by what is drawn."""
    own = engine.default_generator.get_state()
    engine.default_generator.set_state(torch.default_generator.get_state().numpy())
    try:
        yield
        torch.default_generator.set_state(torch.from_numpy(engine.default_generator.get_state()))
    finally:
        engine.default_generator.set_state(own)
