"""Awaited results, and waiting without fetching: values, failures, and sessions that end meanwhile."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time

import numpy as np
import pytest
import torch

from torchnp import rpc
from torchnp.rpc import wire
from torchnp.rpc.client.transports.transport import InProcess
from torchnp.rpc.server.session.protocol import Connection, ServerState


def failing(session: rpc.Session) -> torch.Tensor:
    return torch.nn.functional.embedding(session.send(torch.tensor([9])), session.send(torch.ones(4, 3)))


def test_values_are_awaited_together(session):
    x = session.send(torch.arange(6.0))

    async def several():
        return await asyncio.gather(*((x * i).publish_async() for i in range(20)))

    for i, value in enumerate(asyncio.run(several())):
        assert torch.equal(value, torch.arange(6.0) * i)
    large = torch.arange(700_001.0)  # takes several frames
    first, second = session.send(large).publish_async(), (x + 1).publish_async()
    assert torch.equal(second.result(60), torch.arange(6.0) + 1) and torch.equal(first.result(60), large)


def test_later_operators_and_requests_need_not_wait(session):
    x = session.send(torch.ones(3))
    futures = []
    for i in range(50):
        futures.append((x + i).publish_async())
        if i % 10 == 0:
            assert (x * i).publish().tolist() == [i] * 3
    _done, left = concurrent.futures.wait(futures, 60)
    assert not left and [f.result()[0].item() for f in futures] == list(range(1, 51))


def test_a_failure_is_raised_where_it_is_awaited(session):
    future, fine = failing(session).publish_async(), session.send(torch.ones(1)).publish_async()
    assert fine.result(60).item() == 1
    with pytest.raises(IndexError, match="index out of range") as raised:
        future.result(60)
    assert "test_async_results.py" in raised.value.location
    session.sync()  # the failure has been raised already


def test_wait_raises_what_the_handles_depend_on_and_nothing_else(session):
    x = session.send(torch.ones(3))
    bad = failing(session)
    session.wait(x, x + 1)
    with pytest.raises(IndexError, match="index out of range"):
        session.wait(x, bad + 1)
    session.wait()
    with pytest.raises(TypeError, match="handles of this session, not"):
        session.wait(torch.ones(1))
    with rpc.local() as other, pytest.raises(TypeError, match="handles of this session"):
        other.wait(x)


def test_an_owners_data_is_waited_for_but_not_published():
    with rpc.local(datasets={"d": np.ones((4, 2))}) as session:
        mean = session.dataset("d").mean(0)
        session.wait(mean)
        with pytest.raises(rpc.PrivacyError, match="exact values of owner data are not released"):
            mean.publish_async().result(60)


class Held(InProcess):
    """Delays the answers to PUBLISH until it is released."""

    def __init__(self):
        super().__init__(Connection(ServerState(), "held"))
        self.held, self.released = [], threading.Event()

    def receive(self, timeout=0.0):
        if self.released.is_set() and self.held:
            return self.held.pop(0)
        reply = super().receive(0.0)
        if reply is None or type(wire.decode_reply(reply)) is not wire.Result:
            time.sleep(timeout or 0.0)
            return reply
        self.held.append(reply)
        return None


def test_closing_ends_what_is_awaited():
    session = rpc.Session(Held())
    future = session.send(torch.ones(2)).publish_async()
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(0.2)
    assert not future.cancel()
    session.channel.close()
    with pytest.raises(rpc.RPCError):
        future.result(60)


def test_a_callback_cannot_wait_for_its_own_session():
    session = rpc.Session(Held())
    x, seen = session.send(torch.ones(2)), concurrent.futures.Future()

    def callback(_):
        try:
            seen.set_result(x.publish())
        except RuntimeError as error:
            seen.set_exception(error)

    x.publish_async().add_done_callback(callback)
    session.channel.transport.released.set()
    assert "cannot wait for its session" in str(seen.exception(60))


def test_asking_while_a_function_is_recorded_is_refused(session):
    x = session.send(torch.ones(2))

    @session.program
    def step(x):
        (x + 1).publish_async()
        return x * 2

    with pytest.warns(UserWarning, match="asks for values"):
        for _ in range(4):
            step(x)
