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
    """Uniform words from a key. Holders of the same key that draw the same shapes in the same order get the same words.

    Parameters
    ----------
    key : bytes
        32 bytes, which no other stream uses.
    """

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def words(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return the next uniform words of the stream, an array of an integer dtype."""
        size = math.prod(shape) * dtype.itemsize
        return np.frombuffer(self._encryptor.update(bytes(size)), dtype).reshape(shape)
