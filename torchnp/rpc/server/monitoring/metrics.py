"""Prometheus metrics at ``/metrics`` on a separate port. No metric is computed from tensor values."""

from __future__ import annotations

import contextlib
import logging
import socket
import socketserver
import threading
from collections.abc import Iterator
from typing import Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from torchnp.core.optional_deps import lacking
from torchnp.rpc.exceptions import LedgerError
from torchnp.rpc.server.monitoring.counters import REASONS
from torchnp.rpc.server.monitoring.event_log import note
from torchnp.rpc.server.privacy.ledger import EVERYBODY, Ledger

_COUNTED = (
    ("sessions", "Sessions that were opened."),
    ("operators", "Operators that came in frames."),
    ("failures", "Operators and tensors that failed."),
    ("late", "Replies about private data that came later than was foreseen."),
)
_BYTES = (("received", "Bytes of frames of sessions that came."), ("sent", "Bytes of frames of sessions that went."))


MAX_SCRAPES = 8  # number of connections; if there are more, the oldest one is closed
SCRAPE_SECONDS = 10.0  # for which a connection may be silent


class Observed(Protocol):
    """The parts of a server from which the metrics are read."""

    state: Any
    counters: Any
    sessions: Any
    budget: Any


class _Collector:
    """Prometheus collector, which reads the server's state at each scrape."""

    def __init__(self, server: Observed) -> None:
        from prometheus_client import core

        self.server, self.core = server, core
        self.ledger = Ledger(server.state.ledger.path) if server.state.ledger is not None else None

    def collect(self) -> Iterator[Any]:
        """Yield all metric families with their current values."""
        core, server = self.core, self.server
        totals = server.counters.totals()
        yield core.GaugeMetricFamily("torchnp_open_sessions", "Sessions by now.", len(server.sessions))
        yield core.GaugeMetricFamily(
            "torchnp_reserved_bytes", "Bytes of the common budget that sessions have.", server.budget.reserved()
        )
        for name, text in _COUNTED:
            yield core.CounterMetricFamily(f"torchnp_{name}", text, totals[name])
        for name, text in _BYTES:
            yield core.CounterMetricFamily(f"torchnp_{name}_bytes", text, totals[name])
        yield self._family("refusals", "What was refused.", "reason", {r: totals[r] for r in REASONS})
        kinds = {kind: totals[kind] for kind in ("exact", "noised")}
        yield self._family("publishes", "Tensors that were published.", "kind", kinds)
        if self.ledger is not None:
            yield from self._budgets(self.ledger)

    def _family(self, name: str, text: str, label: str, values: dict[str, int]) -> Any:
        family = self.core.CounterMetricFamily(f"torchnp_{name}", text, labels=[label])
        for key, value in values.items():
            family.add_metric([key], value)
        return family

    def _budgets(self, ledger: Ledger) -> Iterator[Any]:
        make = self.core.GaugeMetricFamily
        labels = ["dataset", "client"]
        budget = make("torchnp_budget_epsilon", "Privacy budgets, at their delta.", labels=labels)
        spent = make("torchnp_budget_spent_epsilon", "What was spent of them, at the same delta.", labels=labels)
        try:
            accounts = ledger.accounts()
        except LedgerError:
            return  # the other metrics are still reported, and ledger errors are in the log
        for account in accounts:
            key = [account.dataset, "(all)" if account.client == EVERYBODY else account.client]
            budget.add_metric(key, account.epsilon if account.limit is not None else 0.0)
            spent.add_metric(key, account.epsilon_spent())
        yield budget
        yield spent


class _Port(socketserver.ThreadingMixIn, WSGIServer):
    """HTTP port whose connections, each in a thread of its own, are few, whatever clients do."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = found[0]
        self._connections: dict[Any, None] = {}  # oldest first
        self._lock = threading.Lock()
        super().__init__(found[4][:2], _Handler)  # type: ignore[arg-type]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._connections[request] = None
            if len(self._connections) > MAX_SCRAPES:
                oldest = next(iter(self._connections))
                del self._connections[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread ends
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: the error is the client's, and its text may be, too."""


class _Handler(WSGIRequestHandler):
    timeout = SCRAPE_SECONDS

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because requests are text from a client."""


def check_installed() -> None:
    """Raise ValueError unless prometheus_client is installed."""
    if said := lacking("metrics", "prometheus_client"):
        raise ValueError(f"metrics {said}")


@contextlib.contextmanager
def serving(server: Observed, host: str, port: int) -> Iterator[int]:
    """Serve a server's metrics from a thread while the block runs; yield the port.

    Raises
    ------
    ValueError
        prometheus_client is not installed.
    OSError
        The port cannot be bound.
    """
    check_installed()
    from prometheus_client import CollectorRegistry, make_wsgi_app

    registry = CollectorRegistry()
    registry.register(_Collector(server))
    httpd = _Port(host, port)
    httpd.set_app(make_wsgi_app(registry))
    thread = threading.Thread(target=httpd.serve_forever, name="torchnp-metrics", daemon=True)
    thread.start()
    note(logging.INFO, "metrics", port=httpd.server_port)
    try:
        yield httpd.server_port
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join(1)
