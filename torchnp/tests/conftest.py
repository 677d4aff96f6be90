"""What tests of the remote tensor are given."""

from __future__ import annotations

import pytest

from torchnp.tests import rpc_server


@pytest.fixture(scope="module")
def servers():
    """Servers that are started when a session wants them, and stopped after a file's last test."""
    yield
    rpc_server.stop()


@pytest.fixture(params=rpc_server.TRANSPORTS)
def session(servers, request):
    """A session on each transport in turn."""
    with rpc_server.session(request.param) as s:
        yield s
