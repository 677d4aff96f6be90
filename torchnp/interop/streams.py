"""torch's generators and torchnp's, kept at the same point of the same stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from torchnp import random as engine
from torchnp.interop import plan


class Streams:
    """Runs random ops on torch's streams.

    Before an op torchnp's generator takes the state of torch's, after it torch's takes torchnp's: ops under the mode
    continue ``torch.manual_seed``'s stream and leave torch's generator where torch would have left it.
    """

    def __init__(self) -> None:
        self._state = np.empty(0, np.uint8)  # of torch's default generator, as last written here

    def lend(self, generator: torch.Generator | None) -> engine.Generator:
        """torchnp's generator at the point where torch's stands; the default one for None."""
        if generator is None or generator is torch.default_generator:
            state = torch.default_generator.get_state().numpy()
            if not np.array_equal(state, self._state):
                engine.default_generator.set_state(state)
            return engine.default_generator
        return engine.Generator().set_state(generator.get_state().numpy())

    def give_back(self, generator: torch.Generator | None, lent: engine.Generator) -> None:
        """Leave torch's generator where the op left torchnp's."""
        state = lent.get_state()
        if lent is engine.default_generator:
            self._state = state
        (generator or torch.default_generator).set_state(torch.from_numpy(state))

    def wrap(self, run: plan.Run) -> plan.Run:
        """A random op's run, on the stream of its generator argument or of the default generator."""

        def on_stream(args: tuple, kwargs: dict[str, Any]) -> Any:
            explicit = find_generator(args, kwargs)
            lent = self.lend(explicit)
            if explicit is not None:
                args = tuple(lent if x is explicit else x for x in args)
                kwargs = {k: lent if x is explicit else x for k, x in kwargs.items()}
            result = run(args, kwargs)
            self.give_back(explicit, lent)
            return result

        return on_stream

    def keep_default(self) -> Callable[[], None]:
        """Remember the state of torchnp's own default generator; call the result to bring it back."""
        state = engine.default_generator.get_state()

        def restore() -> None:
            engine.default_generator.set_state(state)
            self._state = np.empty(0, np.uint8)

        return restore


def find_generator(args: tuple, kwargs: dict[str, Any]) -> torch.Generator | None:
    """The generator argument of a call, if it has one."""
    for x in (*args, *kwargs.values()):
        if isinstance(x, torch.Generator):
            if x.device.type != "cpu":
                raise plan.Foreign(f"a generator on {x.device}")
            return x
    return None


def is_random(func: torch._ops.OpOverload) -> bool:
    """Whether an overload draws random numbers."""
    return torch.Tag.nondeterministic_seeded in func.tags or any(
        "Generator" in str(a.type) for a in func._schema.arguments
    )
