"""What tests of the remote tensor are given."""

from __future__ import annotations

import pytest

from torchnp.tests.rpc import server_pool


@pytest.fixture(scope="module")
def servers():
    """Servers that are started when a session wants them, and stopped after a file's last test."""
    yield
    server_pool.stop()


@pytest.fixture(params=server_pool.TRANSPORTS)
def session(servers, request):
    """A session on each transport in turn."""
    with server_pool.session(request.param) as s:
        yield s
