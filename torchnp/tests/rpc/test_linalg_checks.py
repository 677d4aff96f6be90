"""A failed check also fails the results that it checks, so none of them is published."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch

from torchnp import rpc
from torchnp.tests.rpc import server_pool

BAD, GOOD = torch.zeros(3, 3), torch.eye(3) * 2
CALLS = {
    "inv": torch.linalg.inv, "inverse": torch.inverse, "cholesky": lambda x: torch.linalg.cholesky(x - 1),
    "upper": lambda x: torch.linalg.cholesky(x - 1, upper=True), "solve": lambda x: torch.linalg.solve(x, x),
    "solve-vector": lambda x: torch.linalg.solve(x, x[0]), "solve-right": lambda x: torch.linalg.solve(x, x, left=False),
    "lu": lambda x: torch.linalg.lu_factor(x)[0], "pivots": lambda x: torch.linalg.lu_factor(x)[1],
    "tensorinv": lambda x: torch.linalg.tensorinv(x, ind=1), "power": lambda x: torch.linalg.matrix_power(x, -2),
    "later": lambda x: (torch.linalg.inv(x) * 0 + 1).sum(), "view": lambda x: torch.linalg.inv(x).T[0],
    "batch": lambda x: torch.linalg.inv(torch.stack([x, torch.eye(3) if type(x) is torch.Tensor else x])),
}  # fmt: skip


@pytest.mark.parametrize("call", list(CALLS.values()), ids=list(CALLS))
def test_what_failed_its_check_is_not_published(call):
    with pytest.raises(RuntimeError) as here:
        call(BAD)
    session = rpc.local()
    made = call(session.send(BAD))
    with pytest.raises(rpc.RemoteOpError) as told:
        made.publish()
    assert str(here.value).split(":")[0].removeprefix("torch.") in told.value.remote_text
    with pytest.raises(rpc.RemoteOpError):
        made.publish()  # fails each time
    assert torch.equal((session.send(GOOD) + 1).publish(), GOOD + 1)
    with contextlib.suppress(rpc.RemoteOpError):
        session.close()


@pytest.mark.parametrize("transport", server_pool.TRANSPORTS)
def test_over_every_transport(transport):
    session = server_pool.session(transport)
    x = session.send(BAD)
    bad = [torch.linalg.inv(x), torch.linalg.cholesky(x - 1), torch.linalg.solve(x, session.send(GOOD))]
    good = torch.linalg.inv(session.send(GOOD))
    for made in bad:
        with pytest.raises(torch.linalg.LinAlgError):
            made.publish()
    assert torch.equal(good.publish(), GOOD.inverse())
    assert torch.equal(x.publish(), BAD)
    with contextlib.suppress(rpc.RemoteOpError):
        session.close()


def test_what_is_written_into_fails_too():
    session = rpc.local()
    x, out, info = session.send(BAD), session.send(torch.ones(3, 3)), session.send(torch.ones((), dtype=torch.int32))
    torch.linalg.inv_ex(x, out=(out, info))
    torch.ops.aten._linalg_check_errors(info, "linalg.inv", is_matrix=True)
    with pytest.raises(torch.linalg.LinAlgError):
        out.publish()
    with contextlib.suppress(rpc.RemoteOpError):
        session.close()


def test_a_check_of_an_owners_data_tells_nothing():
    for matrix in (np.zeros((3, 3)), np.eye(3)):
        with rpc.local(datasets={"x": matrix}) as session:
            made = torch.linalg.inv(session.dataset("x"))
            session.sync()
            with pytest.raises(rpc.PrivacyError):
                made.publish()
            assert torch.equal(session.send(GOOD).publish(), GOOD)
