"""Cryptographic pseudorandom arrays: AES-256 in counter mode, with keys from the operating system's entropy."""

from __future__ import annotations

import math
import secrets

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

KEY_BYTES = 32


def new_key() -> bytes:
    """Return a key from the operating system's entropy."""
    return secrets.token_bytes(KEY_BYTES)


class RandomStream:
    """Uniform words from a key: holders of the same key draw the same arrays for the same number.

    Parameters
    ----------
    key : bytes
        32 bytes.
    number : int
        Number of the stream, the upper half of the counter; never used twice with one key.
    """

    def __init__(self, key: bytes, number: int) -> None:
        self._encryptor = Cipher(algorithms.AES256(key), modes.CTR(number.to_bytes(8, "big") + bytes(8))).encryptor()

    def words(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return the next uniform words of the stream, an array of an integer dtype."""
        size = math.prod(shape) * dtype.itemsize
        return np.frombuffer(self._encryptor.update(bytes(size)), dtype).reshape(shape)
