"""Factors with other properties than torch's are wrong, even if their product is the matrix; factors with other signs
are right."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import opinfo_tests
import torchnp
from opinfo_tests.backends.backend import Table
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.generate.samples.recording import freeze
from opinfo_tests.run.runner import run_case

A = torch.tensor([[4.0, 1.0, 2.0], [1.0, 3.0, 0.5], [2.0, 0.5, 5.0]], dtype=torch.float64)
SIGNS = np.array([1.0, -1.0, -1.0])


def outcome(op, change, *args):
    def row(*a, **k):
        out = torchnp.table[op](*a, **k)
        return change(*out) if isinstance(out, tuple) else change(out)

    return run_case(freeze(op, (A, *args), {}, "", "float64"), TorchDevice("cpu"), opinfo_tests.table({op: row}))[0]


def turned(u, s, vh):
    """Return factors with the same product whose vectors are orthonormal, but belong to other values."""
    return u @ vh, s, np.diag(1 / s) @ vh.T @ np.diag(s) @ vh


RIGHT = [
    ("aten::linalg_svd", lambda u, s, vh: (u * SIGNS, s, SIGNS[:, None] * vh), ()),
    ("aten::svd", lambda u, s, v: (u * SIGNS, s, v * SIGNS), ()),
    ("aten::linalg_eigh", lambda w, v: (w, v * SIGNS), ()),
    ("aten::linalg_eig", lambda w, v: (w[::-1].copy(), v[:, ::-1] * 1j), ()),
    ("aten::linalg_eigvals", lambda w: w[::-1].copy(), ()),
    ("aten::linalg_qr", lambda q, r: (q * SIGNS, SIGNS[:, None] * r), ()),
    ("aten::linalg_qr", lambda q, r: (q, SIGNS[:, None] * r), ("r",)),
]
WRONG = [
    ("aten::geqrf", lambda a, tau: (np.diag(SIGNS) @ np.triu(a) + np.tril(a, -1), tau), (), "product"),
    ("aten::geqrf", lambda a, tau: (np.triu(a), tau), (), "orthonormal"),
    ("aten::geqrf", lambda a, tau: (A.numpy().copy() * 1.0, np.zeros(3)), (), "product"),
    ("aten::linalg_svd", lambda u, s, vh: (2 * u, s, vh / 2), (), "orthonormal"),
    ("aten::linalg_svd", lambda u, s, vh: (-u, -s, vh), (), "values"),
    ("aten::linalg_svd", lambda u, s, vh: (u[:, ::-1], s[::-1], vh[::-1]), (), "values"),
    ("aten::linalg_svd", turned, (), "orthonormal"),
    ("aten::linalg_svd", lambda u, s, vh: (u, s, np.eye(3)), (), "product"),
    ("aten::_linalg_svd", lambda u, s, vh: (u, s + 1e-9, vh), (False, False), "values"),
    ("aten::linalg_eigh", lambda w, v: (w[::-1].copy(), v[:, ::-1]), (), "eigenvalues"),
    ("aten::linalg_eigh", lambda w, v: (w, 2 * v), (), "orthonormal"),
    ("aten::linalg_eigh", lambda w, v: (w, np.eye(3)), (), "product"),
    ("aten::_linalg_eigh", lambda w, v: (w * 2, v), ("L", False), "eigenvalues"),
    ("aten::linalg_eig", lambda w, v: (w, v * 2), (), "unit length"),
    ("aten::linalg_eig", lambda w, v: (w[[0, 0, 0]], v[:, [0, 0, 0]]), (), "trace"),
    ("aten::linalg_eigvals", lambda w: w[[0, 0, 0]], (), "trace"),
    ("aten::linalg_eigvals", lambda w: w * 1.001, (), "no eigenvalue"),
    ("aten::linalg_eigvals", lambda w: w.conj() + 1j, (), "no eigenvalue"),
    ("aten::linalg_qr", lambda q, r: (np.eye(3), A.numpy().copy()), (), "triangular"),
    ("aten::linalg_qr", lambda q, r: (2 * q, r / 2), (), "orthonormal"),
    ("aten::linalg_qr", lambda q, r: (q, 2 * r), (), "product"),
    ("aten::linalg_qr", lambda q, r: (q, 2 * r), ("r",), "not a factor"),
]


@pytest.mark.parametrize(("op", "change", "args"), RIGHT)
def test_other_signs_and_orders(op, change, args):
    found = outcome(op, change, *args)
    assert found.outcome in ("pass", "wrong-strides"), found.message


@pytest.mark.parametrize(("op", "change", "args", "words"), WRONG)
def test_no_factors(op, change, args, words):
    found = outcome(op, change, *args)
    assert found.outcome == "wrong-value" and words in found.message


def test_strides_of_factors_are_compared():
    fine = lambda q, r: (np.asfortranarray(q), np.asfortranarray(r))
    assert strided(fine).outcome == "pass"
    assert strided(lambda q, r: (np.ascontiguousarray(q), np.asfortranarray(r))).outcome == "wrong-strides"


def strided(change):
    """Return the verdict on a backend that reports the memory of its results."""
    backend = Table(
        {"aten::linalg_qr": lambda A, mode="reduced": change(*torchnp.aten.linalg_qr(A, mode))}, "turned", strides=True
    )
    return run_case(freeze("aten::linalg_qr", (A,), {}, "", "float64"), TorchDevice("cpu"), backend)[0]
