"""Philox random numbers for a key, which torch has only on CUDA, against the published algorithm in Python integers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from torchnp import aten
from torchnp.interop import to_numpy, to_torch

LOW, WHOLE = 2**32 - 1, 2**64 - 1
# Digits with which Random123 tests its generators, and the digits that follow.
PI = "243f6a88 85a308d3 13198a2e 03707344"
ANSWERS = {
    ("00000000 " * 4, "00000000 00000000"): "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ("ffffffff " * 4, "ffffffff ffffffff"): "408f276d 41c83b0e a20bc7c6 6d5451fd",
    (PI, "a4093822 299f31d0"): "d16cfe09 94fdcceb 5001e420 24126ea1",
}
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def philox(counter, key):
    """Compute ten rounds of Philox 4x32."""
    (a, b, c, d), (k, m) = counter, key
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = second >> 32 ^ b ^ k, second & LOW, first >> 32 ^ d ^ m, first & LOW
        k, m = k + 0x9E3779B9 & LOW, m + 0xBB67AE85 & LOW
    return a, b, c, d


def words(text):
    return tuple(int(x, 16) for x in text.split())


@pytest.mark.parametrize("given", ANSWERS)
def test_the_words_that_are_known(given):
    assert philox(*map(words, given)) == words(ANSWERS[given])


def of_key(seed, offset):
    offset &= WHOLE
    return philox((offset & LOW, offset >> 32, 0, 0), (seed & LOW, seed >> 32))


def folded(seed, offset):
    a, b, c, d = of_key(seed, offset)
    return [a | b << 32, c | d << 32]


KEYS = [(0, 0), (1, 2), (2**32 + 5, 2**32 - 2), (WHOLE, WHOLE - 1), (0xA4093822299F31D0, 0x243F6A8885A308D3)]


@pytest.mark.parametrize("key", KEYS)
def test_new_keys_are_the_words_at_a_step(key):
    array = np.array(key, np.uint64)
    found = aten._philox_key_split(array, 5)
    assert found.dtype == np.uint64 and found.tolist() == [folded(key[0], key[1] + i) for i in range(5)]
    for data in (0, 1, 7, 2**40, -1, -(2**63)):
        assert aten._philox_key_fold_in(array, data).tolist() == folded(key[0], key[1] + data)


def test_new_keys_of_many():
    keys = np.array(KEYS[:4], np.uint64).reshape(2, 2, 2)
    split, fold = aten._philox_key_split(keys, 3), aten._philox_key_fold_in(keys, 3)
    assert split.shape == (3, 2, 2, 2) and fold.shape == (2, 2, 2)
    for i, j in np.ndindex(2, 2):
        seed, offset = KEYS[2 * i + j]
        assert split[:, i, j].tolist() == [folded(seed, offset + step) for step in range(3)]
        assert fold[i, j].tolist() == folded(seed, offset + 3)
    assert aten._philox_key_split(keys[:0], 3).shape == (3, 0, 2, 2)


# ---------------------------------------------------------------- values


def sequence(seed, offset, count, wide):
    """Return the words of a key from its offset on: each step makes four; a wide value uses two."""
    found = itertools.chain.from_iterable(of_key(seed, offset + i) for i in range(-(-count // (2 if wide else 4))))
    return list(found)


def uniform(seed, offset, count, dtype, low, high):
    wide = dtype == torch.float64
    drawn, real = sequence(seed, offset, count, wide), torch.float64 if wide else torch.float32
    if wide:
        drawn = [a << 32 | b for a, b in zip(drawn[::2], drawn[1::2], strict=True)]
    bits = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}[dtype]
    units = torch.tensor([x % 2**bits / 2**bits for x in drawn[:count]], dtype=real)
    least, most = torch.tensor(low, dtype=dtype), torch.tensor(high, dtype=dtype)
    return (units * (most - least).to(real) + least.to(real)).to(dtype)


def normal(seed, offset, count, dtype, mean, std):
    """Box-Muller: the cosine and the sine of an angle, times a radius."""
    wide = dtype == torch.float64
    drawn, real = sequence(seed, offset, count, wide), torch.float64 if wide else torch.float32
    if wide:
        units = [((a << 32 | b) + 0.5) / 2**64 for a, b in zip(drawn[::2], drawn[1::2], strict=True)]
    else:
        units = [float(np.float32((float(np.float32(x)) + 0.5) / 2**32)) for x in drawn]
    u, v = torch.tensor(units, dtype=torch.float64).view(-1, 2).T
    radius, angle = (-2 * u.log()).sqrt(), 2 * math.pi * v
    found = torch.stack([radius * angle.cos(), radius * angle.sin()], 1).reshape(-1)[:count]
    return (found * std + mean).to(real).to(dtype)


def by_groups(reference, shape, keys, dtype, *options):
    """Return one sequence for each key, over the dimensions that belong to the key."""
    batch = keys.shape[:-1]
    own = max((i + 1 for i, n in enumerate(batch) if n != 1), default=0)
    spread = np.broadcast_to(keys.reshape(*batch[:own], 2), (*shape[:own], 2))
    count = math.prod(shape[own:])
    groups = [reference(*spread[i].tolist(), count, dtype, *options) for i in np.ndindex(shape[:own])]
    return torch.cat([torch.empty(0, dtype=dtype), *groups]).view(shape)


SHAPES = [
    ((), ()), ((7,), ()), ((2, 9), ()), ((0,), ()), ((2, 0), (2, 1)), ((2, 9), (2, 1)), ((2, 3), (2, 3)),
    ((2, 3, 5), (1, 3, 1)), ((2, 3, 5), (2, 1, 5)), ((2, 3, 5), (1, 1, 1)), ((2, 3, 2), (2, 1, 1)),
]  # fmt: skip


def keys_of(batch):
    many = np.array(list(itertools.islice(itertools.cycle(KEYS), math.prod(batch))), np.uint64).reshape(-1, 2)
    many[:, 1] += np.arange(len(many), dtype=np.uint64) // np.uint64(len(KEYS))
    return many.reshape(*batch, 2)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "batch"), SHAPES)
def test_uniform_values_are_the_low_bits_of_the_words(shape, batch, dtype):
    keys, self = keys_of(batch), to_numpy(torch.zeros(shape, dtype=dtype))
    for low, high in ((0.0, 1.0), (-1.1, 3.3)):
        want = by_groups(uniform, shape, keys, dtype, low, high)
        found = aten._philox_uniform(self, keys, low, high)
        torch.testing.assert_close(to_torch(found), want, rtol=0, atol=0)
    torch.testing.assert_close(to_torch(aten._philox_uniform(self, keys)), by_groups(uniform, shape, keys, dtype, 0, 1))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "batch"), SHAPES)
def test_normal_values_are_box_and_mullers(shape, batch, dtype):
    keys, self = keys_of(batch), to_numpy(torch.zeros(shape, dtype=dtype))
    tolerance = {torch.float64: 1e-14, torch.float32: 1e-6}.get(dtype, torch.finfo(dtype).eps)
    for mean, std in ((0.0, 1.0), (-1.5, 0.3)):
        want = by_groups(normal, shape, keys, dtype, mean, std)
        found = aten._philox_normal(self, keys, mean, std)
        torch.testing.assert_close(to_torch(found), want, rtol=tolerance, atol=tolerance)
    assert to_torch(aten._philox_normal(self, keys)).equal(to_torch(aten._philox_normal(self, keys, 0.0, 1.0)))


@pytest.mark.parametrize("seed", [12121362, 16390493])
def test_normal_values_of_the_words_at_both_ends(seed):
    first = of_key(seed, 0)[0]
    assert first == 58 or first >= 2**32 - 128  # this is 1 in single precision
    found = aten._philox_normal(np.zeros(2, np.float32), np.array((seed, 0), np.uint64))
    torch.testing.assert_close(to_torch(found), normal(seed, 0, 2, torch.float32, 0, 1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("name", "options"), [("_philox_uniform", (-2.0, 2.0)), ("_philox_normal", (2.0, 0.1))])
def test_in_place_and_into_an_out(name, options):
    key, want = (
        np.array(KEYS[2], np.uint64),
        getattr(aten, name)(np.zeros((2, 3)), np.array(KEYS[2], np.uint64), *options),
    )
    written, out = np.zeros((2, 3)), np.zeros((2, 3))
    assert getattr(aten, name + "_")(written, key, *options) is written
    getattr(aten, name).out(np.zeros((2, 3)), key, *options, out=out)
    assert np.array_equal(written, want) and np.array_equal(out, want)


# ---------------------------------------------------------------- refusals

KEY, VALUES = np.array((1, 2), np.uint64), np.zeros((2, 3), np.float32)
REFUSED = [
    (aten._philox_key_split, (KEY, 0), "_philox_key_split: num_splits must be positive, got 0"),
    (aten._philox_key_split, (KEY, -3), "_philox_key_split: num_splits must be positive, got -3"),
    (aten._philox_key_split, (KEY[:1], 1), "_philox_key_split: key must have shape (*batch, 2), got shape [1]"),
    (aten._philox_key_split, (KEY[0:1].reshape(()), 1), "_philox_key_split: key must have shape (*batch, 2), got shape []"),
    (aten._philox_key_split, (KEY.astype(np.int64), 1), "_philox_key_split: key must have dtype uint64, got Long"),
    (aten._philox_key_fold_in, (np.zeros((2, 3), np.uint64), 1), "_philox_key_fold_in: key must have shape (*batch, 2), got shape [2, 3]"),
    (aten._philox_key_fold_in, (KEY.astype(np.int32), 1), "_philox_key_fold_in: key must have dtype uint64, got Int"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "given", "said"), REFUSED)
def test_keys_that_are_refused(call, given, said):
    refused(call, given, said)


def refused(call, given, said):
    with pytest.raises(RuntimeError) as error:
        call(*given)
    assert str(error.value) == said


@pytest.mark.parametrize("name", ["_philox_uniform", "_philox_normal"])
def test_values_that_are_refused(name):
    call = getattr(aten, name)
    rows = [
        (VALUES.astype(np.int64), KEY, "not implemented for 'Long'"),
        (VALUES, KEY.astype(np.int64), "key must have dtype uint64, got Long"),
        (VALUES, KEY[:1], "key must have shape (2,) or (*batch, 2), got shape [1]"),
        (VALUES, KEY[0:1].reshape(()), "key must have shape (2,) or (*batch, 2), got shape []"),
        (VALUES, KEY[None], "batched key must have ndim == output ndim + 1, got key shape [1, 2] with output shape [2, 3]"),
        (VALUES, np.zeros((3, 1, 2), np.uint64), "key batch shape [3, 1] is not broadcastable with output shape [2, 3]"),
        (VALUES, np.zeros((2, 2, 2), np.uint64), "key batch shape [2, 2] is not broadcastable with output shape [2, 3]"),
    ]  # fmt: skip
    for values, key, said in rows:
        whole = f'"{name}_" {said}' if said.startswith("not implemented") else f"{name}_: {said}"
        with pytest.raises((RuntimeError, NotImplementedError)) as error:
            call(values, key)
        assert str(error.value) == whole
