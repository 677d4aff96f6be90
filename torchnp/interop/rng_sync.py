"""Keep the states of torch's and torchnp's random generators equal.

Before a random op, torchnp's generator takes the state of torch's; afterwards torch's takes the state of torchnp's. So
ops under the mode continue the random numbers of ``torch.manual_seed`` and leave torch's generator where torch would
have left it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torchnp import random as engine
from torchnp.interop._private import OpOverload, schema_of
from torchnp.interop.kernel_runner import Foreign, Run


def on_torchs_stream(run: Run, device: str = "cpu") -> Run:
    """Wrap a random op's run so that it uses the state of its generator argument, or of torch's default generator."""

    def on_stream(args: tuple, kwargs: dict[str, Any]) -> Any:
        explicit = find_generator(args, kwargs, device)
        theirs = explicit or torch.default_generator
        lent = engine.Generator() if explicit else engine.default_generator
        lent.set_state(theirs.get_state().numpy())
        if explicit:
            args = tuple(lent if x is explicit else x for x in args)
            kwargs = {k: lent if x is explicit else x for k, x in kwargs.items()}
        result = run(args, kwargs)
        theirs.set_state(torch.from_numpy(lent.get_state()))
        return result

    return on_stream


def keep_default() -> Callable[[], None]:
    """Save the state of torchnp's default generator; return a function that restores it."""
    state = engine.default_generator.get_state()
    return lambda: engine.set_rng_state(state)


def find_generator(args: tuple, kwargs: dict[str, Any], device: str = "cpu") -> torch.Generator | None:
    """Return a call's generator argument, or None.

    It must be the CPU's, or that of a device with the CPU's generator state.
    """
    for x in (*args, *kwargs.values()):
        if isinstance(x, torch.Generator):
            if x.device.type not in ("cpu", device):
                raise Foreign(f"a generator on {x.device}")
            return x
    return None


def is_random(func: OpOverload) -> bool:
    """Return whether an overload draws random numbers."""
    return torch.Tag.nondeterministic_seeded in func.tags or any(
        "Generator" in str(a.type) for a in schema_of(func).arguments
    )
