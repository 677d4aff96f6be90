"""Where random numbers come from: torch's generators here, which give each random operator a key to seed its own by."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

from torchnp.rpc.exceptions import HandleError

_DRAWING = threading.Lock()
# What a CPU generator's state says of its words: one left in the block (of none that was made), seeded, none used.
_UNUSED, _UNUSED_AT = bytes([1, 0, 0, 0, 1, 0, 0, 0]) + bytes(8), slice(8, 24)


@contextlib.contextmanager
def unmoved() -> Iterator[None]:
    """Have torch's own generator afterwards where it was before, whatever draws from it meanwhile."""
    with _DRAWING:
        state = torch.default_generator.get_state()
        try:
            yield
        finally:
            torch.default_generator.set_state(state)


def draw_key(generator: torch.Generator | None) -> int:
    """The next key of a generator, by default torch's.

    A key depends on the generator's state alone: whatever restores the state (checkpoints, ``fork_rng``) repeats the
    random numbers. The first key after ``manual_seed(n)`` is n's low 32 bits, all that torch's engine uses: the server
    then draws what torch would.
    """
    if generator is None:
        generator = torch.default_generator
    if generator.device.type != "cpu":
        raise HandleError(f"only a generator on the CPU can give keys to a server, this one is on {generator.device}")
    with _DRAWING:
        unused = generator.get_state().numpy().data[_UNUSED_AT] == _UNUSED
        key: int = torch.empty((), dtype=torch.int64, device="cpu").random_(generator=generator).item()  # type: ignore
    return generator.initial_seed() & 0xFFFFFFFF if unused else key


def drawn_in_order(state: torch.Tensor, keys: list[int]) -> bool:
    """Whether whoever had torch's generator in a state, and has it as it is now, has drawn these keys and nothing else."""
    generator = torch.Generator()
    generator.set_state(state)
    if any(draw_key(generator) != key for key in keys):
        return False
    return torch.equal(generator.get_state(), torch.get_rng_state())
