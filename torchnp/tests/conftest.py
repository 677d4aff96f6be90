"""Fixtures for the tests of the remote tensor."""

from __future__ import annotations

import pytest

from torchnp.tests.rpc import server_pool


@pytest.fixture(scope="module")
def servers():
    """Servers that are started on first use, and stopped after a file's last test."""
    yield
    server_pool.stop()


@pytest.fixture(params=server_pool.TRANSPORTS)
def session(servers, request):
    """A session on each transport in turn."""
    with server_pool.session(request.param) as s:
        yield s
