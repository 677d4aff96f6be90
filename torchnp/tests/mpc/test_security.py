"""A party sees only uniform words, in messages whose length and order depend only on shapes."""

import logging

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch.nn import functional as F

from torchnp import mpc
from torchnp.mpc.correlations import KINDS
from torchnp.mpc.dealer import LocalSource
from torchnp.mpc.shares import OneTimeMask, SharedSum
from torchnp.rpc.exceptions import ValueAccessError
from torchnp.tests.mpc.sharing import Parties

# A uniform source fails a test at this level once in a million runs, and there are about fifty tests.
LEVEL = 1e-6


def uniform(data: bytes) -> bool:
    """Apply a chi-square test to bytes. By the usual rule it needs five of each value."""
    counts = np.bincount(np.frombuffer(data, np.uint8), minlength=256)
    expected = counts.sum() / 256
    assert expected >= 5
    return ((counts - expected) ** 2 / expected).sum() < chi2.isf(LEVEL, 255)


def program(engine, x, labels):
    """A training step that uses all protocols: convolution, pool, softmax, secret classes, division, roots."""
    torch.manual_seed(0)
    model = engine.module(
        torch.nn.Sequential(
            torch.nn.Conv2d(1, 2, 3), torch.nn.MaxPool2d(2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 3)
        )
    )
    optimizer = torch.optim.Adam(model.parameters(), eps=1e-3)
    loss = F.cross_entropy(model(engine.send(x)), engine.send(labels, owner=1))
    loss.backward()
    optimizer.step()
    return loss


def messages_of(x, labels):
    transcript = []
    program(mpc.local(bits=18, transcript=transcript), x, labels)
    return transcript


@pytest.fixture(scope="module")
def transcripts():
    """Return the messages of one program with two sets of values that have nothing in common."""
    return (
        messages_of(torch.zeros(16, 1, 6, 6), torch.zeros(16, dtype=torch.int64)),
        messages_of(torch.linspace(-8, 8, 576).reshape(16, 1, 6, 6), torch.tensor([2, 1, 0, 2] * 4)),
    )


def test_no_message_depends_on_values(transcripts):
    """Length, order and label of each message are the same for both sets of values; the contents are uniform."""
    shapes = [[(label, [len(m) for m in messages]) for label, messages in t] for t in transcripts]
    assert shapes[0] == shapes[1] and len(shapes[0]) > 100
    assert not [label for label, _ in shapes[0] if label == "publish"]


@pytest.mark.parametrize("label", ["truncate", "compare", "multiply", "matmul", "convolution"])
def test_messages_are_uniform(transcripts, label):
    """What one party sends, and what is opened, is uniform for zeros and for other values."""
    for transcript in transcripts:
        rounds = [messages for name, messages in transcript if name == label]
        for rank in (0, 1):
            assert uniform(b"".join(messages[rank] for messages in rounds))
        words = [[np.frombuffer(part, np.uint64) for part in messages] for messages in rounds]
        with np.errstate(over="ignore"):
            assert uniform(b"".join((a + b).tobytes() for a, b in words))


@pytest.mark.parametrize("owner", [0, 1, 2])
@pytest.mark.parametrize("value", [0.0, 1.0, -123.0])
def test_shares_are_uniform(owner, value):
    engine = mpc.local(parties=3)
    payload = engine.send(torch.full((3000,), value), owner=owner)._object.read()
    for part in payload.parts:
        assert uniform(part.tobytes())
    with np.errstate(over="ignore"):  # two of three parties together learn nothing either
        assert uniform((payload.parts[0] + payload.parts[1]).tobytes())


@pytest.mark.parametrize(
    "kind, arguments",
    [
        ("product", ("multiply", (4000,), (4000,), {})), ("conjunction", ((9000,), (9000,), "uint16")),
        ("truncation", ((4000,), 16)), ("masked_bits", ((4000,),)), ("conversion", ((2000,), 64)),
        ("unit_vector", ((600,), 16)),
    ],
)  # fmt: skip
def test_each_party_gets_uniform_words_from_the_dealer(kind, arguments):
    assert kind in KINDS
    for item in LocalSource(2).take(kind, *arguments):
        full = not isinstance(item, OneTimeMask) or item.width == 8 * item.shares.parts[0].dtype.itemsize
        for part in (item.shares if isinstance(item, OneTimeMask) else item).parts:
            assert not full or part.nbytes < 256 * 5 or uniform(part.tobytes())


def test_the_tests_of_uniformity_notice_a_bad_mask():
    words = np.random.default_rng(0).integers(0, 2**62, 4000)  # the two highest bits are always zero
    assert not uniform(words.tobytes())


def test_a_mask_hides_one_value():
    parties = Parties()
    mask, _, _ = parties.protocol.source.take("truncation", (3,), 8)
    x = parties.share([1, 2, 3])
    with np.errstate(over="ignore"):
        parties.network.open_masked("once", (x, mask))
        with pytest.raises(RuntimeError, match="used twice"):
            parties.network.open_masked("again", (x, mask))
        with pytest.raises(AttributeError):
            parties.network.open_masked("not a mask", (x, x))


def test_shares_are_no_numbers():
    shares = Parties().share([1, 2])
    for read in (float, int, bool, list, len, np.asarray, np.sum, lambda x: x == x, lambda x: f"{x + 1}", hash):
        with pytest.raises(TypeError):
            read(shares)
    with pytest.raises(TypeError):
        np.array([1, 2]) + shares
    assert "[1" not in repr(shares) and isinstance(shares, SharedSum)


def test_publishing_is_counted_and_logged(caplog):
    engine = mpc.local()
    x = engine.send(torch.ones(2, 3))
    with pytest.raises(ValueAccessError):
        bool(x.sum() > 1)
    assert engine.traffic.published == 0
    with caplog.at_level(logging.INFO, "torchnp.mpc"):
        x.publish()
    assert engine.traffic.published == 6 and "published a tensor of torch.float32 of shape (2, 3)" in caplog.text


PROGRAMS = {
    "a number": lambda x: x * 0.5,
    "another number": lambda x: x * 0.25,
    "a tensor": lambda x: x * torch.full((2, 3), 0.5),
    "another tensor": lambda x: x * torch.full((2, 3), 0.25),
    "a dimension": lambda x: x.sum(0),
    "another dimension": lambda x: x.sum(1),
    "a keyword": lambda x: torch.add(x, x, alpha=2),
    "another keyword": lambda x: torch.add(x, x, alpha=3),
    "an operator on public values": lambda x: x * torch.ones(2, 3).exp(),
}


def test_parties_with_different_programs_note_different_ones():
    """Separate processes compare digests of these notes in each message."""
    noted = {}
    for name, program in PROGRAMS.items():
        engine, notes = mpc.local(), []
        engine.protocol.network.notes, engine.protocol.network.note = True, notes.append
        program(engine.send(torch.ones(2, 3)))
        noted[name] = b"|".join(notes)
    assert len(set(noted.values())) == len(PROGRAMS)
