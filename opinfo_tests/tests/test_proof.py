"""The proof of the differences: small selections pass; wrong listings, wrong results and unlisted NumPy behaviour
fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

import torchnp
from opinfo_tests.backends.backend import Seen
from opinfo_tests.case import Array, Case, whole
from opinfo_tests.generate.samples.extra.unreached import UNREACHED
from opinfo_tests.proof import proof_command, template_helpers
from opinfo_tests.proof import prove as proving
from opinfo_tests.proof.all_amendments import AMENDMENTS, EXPECTATIONS
from opinfo_tests.proof.excused_faults import plant
from opinfo_tests.proof.natural_call import NoNaturalCallError, build
from opinfo_tests.proof.pairs import answer_of, compare
from opinfo_tests.proof.prove import Account, counterpart, feed, never_seen, prove, take, unseen
from torchnp.difference_catalogue import CATALOGUE

OPS = frozenset(
    f"aten::{name}"
    for name in [
        "add.Tensor",
        "sin",
        "sign",
        "reciprocal",
        "argmax",
        "amax",
        "prod",
        "prod.dim_int",
        "median",
        "median.dim",
        "cumsum",
        "var.dim",
        "eq.Tensor",
    ]
)


@pytest.fixture(scope="module")
def accounts():
    return prove(OPS, 20)


def case_of(op, *args, **kwargs):
    """Call torch on ndarrays and numbers."""
    buffers = []

    def leaf(x):
        if isinstance(x, np.ndarray):
            memory, window = whole(x, len(buffers))
            buffers.append(memory)
            return window
        return x

    return Case(op, tuple(map(leaf, args)), {k: leaf(v) for k, v in kwargs.items()}, buffers)


def account_of(op, *cases, listed=None):
    found = Account(op)
    for case in cases:
        want = proving.oracle().execute(case)
        take(found, case, want, proving.listed_of(op) if listed is None else listed, *counterpart(op))
    return found


def test_every_disagreement_of_a_small_selection_is_explained(accounts):
    assert sum(a.pairs for a in accounts.values()) > 800
    assert {op: a.unexplained for op, a in accounts.items() if a.unexplained} == {}
    assert not any(a.alone for a in accounts.values())


def test_what_the_selection_lists_is_seen(accounts):
    assert never_seen(accounts) == {}


def test_the_share_on_which_numpy_is_right(accounts):
    lines = dict(line.split("\t", 1) for line in proof_command.lines(accounts)[1:])
    pairs, agree = map(int, lines["aten::sin"].split("\t"))
    assert 0 < agree < pairs
    assert accounts["aten::sin"].right == agree / pairs


def test_a_difference_that_is_not_listed_leaves_its_disagreements_unexplained():
    case = case_of("aten::var.dim", np.array([1.0, 2.0, 4.0], np.float32), [0])
    assert account_of("aten::var.dim", case).how == {"foretold": 1}
    fewer = [d for d in proving.listed_of("aten::var.dim") if d.id != "correction"]
    assert account_of("aten::var.dim", case, listed=fewer).how == {"unexplained": 1}


def test_a_difference_at_an_operator_that_has_it_not_is_never_seen(monkeypatch):
    listed = proving.listed_of
    more = lambda op: (*listed(op), CATALOGUE["lower-median"]) if op == "aten::signbit" else listed(op)
    monkeypatch.setattr(proving, "listed_of", more)
    accounts = prove(frozenset({"aten::signbit"}), 0)
    assert unseen([*accounts.values()]) == ["lower-median"]


def test_an_example_is_a_sighting_apart():
    op = "aten::add.Tensor"
    case = case_of(op, np.ones(1, np.float32), np.ones(1, np.float32))
    found = account_of(op, case)
    assert "overlap-inplace" in unseen([found])
    feed("aten::add", [found], "overlap-inplace")
    assert found.apart["overlap-inplace"] and not found.sightings["overlap-inplace"]


def test_a_plain_argmax_fails_in_torch_s_place():
    """An answer of np.argmax that would make it equal to torch; the proof does not excuse it."""
    op = "aten::argmax"
    case = case_of(op, np.array([False, True]))
    right = proving.oracle().execute(case)
    plain = Seen(results=[np.asarray(np.argmax(np.array([False, True])))], alias=[None])
    assert right.error and compare(case, right, plain).kind == "torch refuses"
    without = [d for d in proving.listed_of(op) if d.id != "no-bool"]
    assert account_of(op, case, listed=without).unexplained


def test_planted_faults_are_mostly_not_excused():
    found = plant(OPS, 20, each=6)
    planted, excused = (sum(n[i] for n in found.values()) for i in (0, 1))
    assert planted > 60
    assert excused / planted < 0.1


@pytest.mark.parametrize(
    "op, args, text",
    [
        ("aten::sum.dim_IntList", (np.ones((2, 3), np.float32), [1]), "[3. 3.]"),
        ("aten::sub.Tensor", (np.float32([3, 4]), np.float32([1, 1]), 2), "[1. 2.]"),
        ("aten::sort", (np.array([1, 3, 2]), -1, True), "[3 2 1]"),
    ],
)
def test_natural_calls(op, args, text):
    kwargs = {"alpha": args[2]} if op == "aten::sub.Tensor" else {}
    case = case_of(op, *(args[:2] if kwargs else args), **kwargs)
    assert str(answer_of(build(case, *counterpart(op))).results[0]) == text


def test_a_call_without_words_in_numpy_is_counted():
    op = "aten::linalg_vector_norm"
    case = case_of(op, np.ones(2, np.float32), 2)
    with pytest.raises(NoNaturalCallError, match="no words for dtype"):
        build(replace(case, kwargs={"dtype": torch_dtype("float64")}, digest=""), *counterpart(op))


def torch_dtype(name):
    from opinfo_tests.case import Named

    return Named("dtype", name)


def test_dtypes_that_numpy_lacks_are_counted_apart():
    case = case_of("aten::sin", np.zeros(2, np.float32))
    other = replace(case, args=(replace(case.args[0], dtype="bfloat16", strides=(2,)),), digest="")
    assert isinstance(other.args[0], Array)
    assert account_of("aten::sin", other).foreign == 1


@pytest.mark.parametrize(
    "op, args",
    [("rand", ([3],)), ("randn", ([3],)), ("randn", ([40],)), ("randint", (10, [20])), ("randperm", (30,))],
)
def test_streams_are_foretold_from_the_words_of_numpy_s_generator(op, args):
    assert account_of(f"aten::{op}", case_of(f"aten::{op}", *args)).how == {"foretold": 1}


@pytest.mark.parametrize(
    "change, how",
    [
        (lambda x: x, "by condition"),
        # A result that satisfies the condition of a sample is not examined further.
        (lambda x: x[::-1].copy(), "by condition"),
        (lambda x: x + 1e-3 * (x > 1.999), "unexplained"),  # the upper end is outside the interval
        (lambda x: x**3 / 4, "unexplained"),
        (lambda x: x.astype(np.float32), "unexplained"),
    ],
)
def test_other_random_numbers_are_compared_as_samples(change, how):
    op = "aten::uniform"
    case = case_of(op, np.zeros(5000), 0.0, 2.0)
    want, found = proving.oracle().execute(case), Account(op)
    want.results = [change(want.results[0])]
    take(found, case, want, proving.listed_of(op), *counterpart(op))
    assert found.how == {how: 1}


def test_families_without_proof_have_counterparts_and_no_pairs():
    families = {torchnp.table[op].family for op in proving.provable()}
    assert proof_command.WITHOUT.keys() < families
    left = proving.provable() - proof_command.proved()
    assert left and not any(a.pairs for a in prove(left, 20).values())


def test_amendments_are_of_differences_that_there_are():
    assert AMENDMENTS.keys() | EXPECTATIONS.keys() <= CATALOGUE.keys()


def test_the_published_shares_are_of_overloads_with_a_counterpart():
    assert proof_command.read().keys() <= proving.provable()
    assert torch.is_tensor(torch.ones(1)) and torchnp.table


def test_counterparts_are_compared_or_it_is_said_why_not():
    assert proof_command.proved() - proof_command.read().keys() == proof_command.proved() & UNREACHED.keys()


@pytest.mark.parametrize(
    "op, args, out, ids",
    [
        ("fft_irfft", np.ones(2, np.complex64), np.zeros(2, np.complex64), {"fft-out-kind"}),
        ("fft_ifft", np.ones(2, np.float32), np.zeros(2, np.complex128), {"fft-out-exact"}),
        ("fft_fft", np.ones(2, np.float32), np.zeros(2, np.complex128), set()),
        ("fft_ifft2", np.ones((2, 2), np.complex64), np.zeros((2, 2), np.complex64), {"fft-out-ignored"}),
        ("fft_fft", np.ones(2, np.float32), np.zeros(3, np.complex64), {"out-resized"}),
    ],
)
def test_transforms_are_compared_in_what_they_write(op, args, out, ids):
    op = f"aten::{op}.out"
    found = account_of(op, case_of(op, args, out=out))
    assert found.pairs == 1 and not found.unexplained and found.sightings.keys() == ids


def test_no_window_is_written_outside_of_its_array():
    window = np.lib.stride_tricks.as_strided(np.zeros(2), (3,), (8,))
    with pytest.raises(ValueError, match="outside"):
        template_helpers.inside(window)
    assert template_helpers.inside(np.zeros(4)[1:3]).size == 2


def test_the_counts_are_rewritten_when_that_is_asked(monkeypatch, tmp_path):
    """Only ``--accept`` rewrites the data file, because the counts differ by a few between machines."""
    monkeypatch.setattr(proof_command, "DATA", tmp_path / "proof.tsv")
    monkeypatch.setattr(proof_command, "prove", lambda ops, draws: {})
    proof_command.show_proof(Console(), None)
    assert not proof_command.DATA.exists()
    proof_command.show_proof(Console(), None, keep=True)
    assert proof_command.DATA.read_text(encoding="utf-8").splitlines() == [proof_command.HEAD]
