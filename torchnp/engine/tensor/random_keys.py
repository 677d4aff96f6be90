"""Keys for random operators: torch's generators on the client seed each random operator on handles."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

from torchnp.rpc.exceptions import HandleError

_DRAWING = threading.Lock()
# Bytes of a CPU generator's state right after seeding: one word left in the block (which is not made yet), seeded, and
# no word used.
_UNUSED, _UNUSED_AT = bytes([1, 0, 0, 0, 1, 0, 0, 0]) + bytes(8), slice(8, 24)


@contextlib.contextmanager
def unmoved() -> Iterator[None]:
    """Restore the state of torch's default generator on exit."""
    with _DRAWING:
        state = torch.default_generator.get_state()
        try:
            yield
        finally:
            torch.default_generator.set_state(state)


def draw_key(generator: torch.Generator | None) -> int:
    """Draw the next key from a generator, by default torch's.

    A key depends only on the generator's state, so restoring the state (checkpoints, ``fork_rng``) repeats the random
    numbers. The first key after ``manual_seed(n)`` is the low 32 bits of n. torch's generator uses only these bits, so
    an engine with torch's random streams draws the same numbers as torch.
    """
    if generator is None:
        generator = torch.default_generator
    if generator.device.type != "cpu":
        raise HandleError(
            f"only a generator on the CPU can give seeds to handles' operators, this one is on {generator.device}"
        )
    with _DRAWING:
        unused = generator.get_state().numpy().data[_UNUSED_AT] == _UNUSED
        key: int = torch.empty((), dtype=torch.int64, device="cpu").random_(generator=generator).item()  # type: ignore
    return generator.initial_seed() & 0xFFFFFFFF if unused else key


def drawn_in_order(state: torch.Tensor, keys: list[int]) -> bool:
    """Return whether drawing exactly these keys takes torch's generator from ``state`` to its current state."""
    generator = torch.Generator()
    generator.set_state(state)
    if any(draw_key(generator) != key for key in keys):
        return False
    return torch.equal(generator.get_state(), torch.get_rng_state())
