"""Ctrl-C at any point of the program's thread leaves the session intact."""

from __future__ import annotations

import _thread
import gc
import signal
import sys
import threading
import time
from linecache import getline

import pytest
import torch

from torchnp import rpc
from torchnp.rpc.client.session import channel as channels
from torchnp.tests.rpc import server_pool

OURS = channels.__file__.rpartition("client")[0]


def work(session: rpc.Session) -> torch.Tensor:
    """Do a little of everything that a channel does."""
    x = session.send(torch.ones(3))
    big = session.send(torch.ones(20_000))
    y = torch.stack([x * i for i in range(3)])
    big.mul_(2)
    session.sync()
    return (y.sum() + big.sum()).publish()


def work_under(trace, session: rpc.Session) -> None:
    """Run the work, and call a function for each of its lines."""
    sys.settrace(trace)
    try:
        work(session)
    finally:
        sys.settrace(None)


def in_destructor(frame) -> bool:
    """Return whether an exception would be lost because the code runs in a destructor."""
    while frame is not None and frame.f_code.co_filename.startswith(OURS):
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def interrupted_at(n: int, session: rpc.Session) -> bool:
    """Run the work with a KeyboardInterrupt at the n-th line in the client's files; return whether it was raised."""
    left = n

    def trace(frame, event, argument):
        nonlocal left
        if not frame.f_code.co_filename.startswith(OURS) or in_destructor(frame):
            return None
        # Python traces the line of a `with` again when it is left; at that point it never handles an interrupt.
        if event == "line" and not getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with "):
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    try:
        work_under(trace, session)
    except KeyboardInterrupt:
        return True
    return False


def test_an_interrupt_at_any_line_leaves_the_session_usable(session):
    """Interrupt every thirteenth line, to be quick; all of them have been tried once."""
    want = work(session)
    gc.collect()
    baseline = session.sync().objects
    n, happened = 1, True
    while happened:
        happened = interrupted_at(n, session)
        if n % 3 == 0 or not happened:
            gc.collect()
            assert work(session) == want
        n += 13
    gc.collect()
    session.sync()
    assert session.sync().objects == baseline
    assert n > 300  # the work has at least this many lines


def interrupted_in_destructor(n: int, session: rpc.Session) -> bool:
    """Raise the interrupt at the n-th event in a destructor; afterwards it must be raised again as a signal."""
    left, lost = n, False

    def trace(frame, event, argument):
        nonlocal left, lost
        if not in_destructor(frame):
            return trace if frame.f_code.co_filename.startswith(OURS) else None
        if event in ("call", "line"):
            left -= 1
            if left == 0:
                lost = True
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    try:
        work_under(trace, session)
        if lost:
            time.sleep(10)
    except KeyboardInterrupt:
        return True
    assert not lost, "the interrupt has not come again"
    return False


def test_an_interrupt_in_a_destructor_is_not_lost(session, interruptible):
    want = work(session)
    gc.collect()
    baseline = session.sync().objects
    n = 1
    while interrupted_in_destructor(n, session):
        assert work(session) == want
        n += 3
    gc.collect()
    session.sync()
    assert session.sync().objects == baseline
    assert n > 12


@pytest.fixture
def interruptible():
    """A background job of a shell ignores SIGINT, and so does Python."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_while_the_server_computes(servers, interruptible):
    """The answer to an abandoned request is not taken for the next answer."""
    with server_pool.session("tls") as session:
        x = session.send(torch.ones(600, 600))
        for i in range(5):
            for _ in range(30):
                x = (x @ x).clamp(0, 1)
            timer = threading.Timer(0.01, _thread.interrupt_main)
            with pytest.raises(KeyboardInterrupt):
                timer.start()
                for _ in range(1000):
                    x.sum().publish()
            timer.join()
            assert session.send(torch.tensor(i)).publish() == i
        assert x.publish().shape == (600, 600)
