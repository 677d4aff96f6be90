"""The remote tensor as a backend: torch's results over every transport, apart from refusals; each worker has its own
server."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import torchnp
from opinfo_tests.backends.load import load_backend
from opinfo_tests.backends.remote_backend import TRANSPORTS, Remote, ServerProcess
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.case import Array, Case, whole
from opinfo_tests.generate.samples.opinfo import opinfos
from opinfo_tests.generate.task import Task
from opinfo_tests.report.report import GOOD, REFUSED, Tally, summary
from opinfo_tests.run.runner import Options, run_case, run_here
from torchnp import rpc

REASONS = {"a handle is not resized", "the shapes of results depend on values", "values are read on the client"}


# The operators are the same over each transport. The transports themselves are tested in torchnp/tests/rpc.
DAILY = ("local", "grpcs")


@pytest.fixture(params=[t if t in DAILY else pytest.param(t, marks=pytest.mark.weekly) for t in TRANSPORTS])
def backend(request):
    found = load_backend(f"remote-{request.param}")
    yield found
    found.close()
    if request.param != "local":
        found.server.close()


def call(op: str, *args, **kwargs) -> Case:
    """Return a case with its own copies of the arrays and other arguments."""
    buffers: list[np.ndarray] = []

    def leaf(x):
        if not isinstance(x, np.ndarray):
            return x
        made, window = whole(x, len(buffers))
        buffers.append(made)
        return window

    return Case(op, tuple(map(leaf, args)), {k: leaf(v) for k, v in kwargs.items()}, buffers)


def outcome(backend: Remote, case: Case) -> str:
    return run_case(case, TorchDevice("cpu"), backend)[0].outcome


def test_a_family_on_each_transport(backend):
    """Reductions: every call gives torch's result, or is refused by policy with a reason and not counted."""
    tasks = [Task(s, d) for s in ("amax", "cumsum", "nonzero", "equal") for d in ("float32", "int64", "bool")]
    tally = Tally()
    for kind, value in run_here(tasks, backend, Options(limit=4)):
        for row in value if kind == "rows" else ():
            tally.add(row)
    assert [(r["call"], r["message"]) for r in tally.failures] == []
    assert tally.total == tally.good > 60
    assert {reason for reason, _ in tally.refused} == REASONS
    text = summary(tally, backend.ops)
    assert f"# {tally.total:,} of {tally.total:,} calls pass" in text and "| values are read on the client |" in text


DTYPES = ("float32", "int64", "bool")


def test_a_sample_of_all_calls_on_each_transport(backend):
    """At least 99% of the calls that are not refused by policy pass; refusals have a reason and are the minority.

    ``docs/harness_reference.md`` has the figures of all calls of the quick tier, and the commands that give them.
    """
    sources = random.Random(backend.transport).sample(sorted(opinfos()), 12)
    tally = Tally()
    tasks = [Task(s, d) for s in sources for d in DTYPES]
    for kind, value in run_here(tasks, backend, Options(limit=3, backward=False)):
        for row in value if kind == "rows" else ():
            if row["dtype"] in DTYPES:
                tally.add(row)
    assert tally.total > 150
    assert tally.good >= 0.99 * tally.total, [(r["call"], r["message"]) for r in tally.failures]
    assert all(reason for reason, _ in tally.refused) and 5 * tally.refused.total() < tally.total


def test_a_session_that_has_ended(backend):
    """A new session replaces one that has ended, on another server if that has died, too."""
    case = call("aten::neg", np.arange(4.0))
    assert outcome(backend, case) == "pass"
    backend.session.close()
    assert outcome(backend, case) == "pass"
    if backend.transport == "local":
        return
    before = backend.server.address
    os.kill(pid_of(backend.server), signal.SIGKILL)
    found = [outcome(backend, case) for _ in range(2)]
    assert found[-1] == "pass" and backend.server.address != before


def pid_of(server: ServerProcess) -> int:
    """Return the server's process, a child of the process that keeps servers."""
    holder = server.holder.pid
    with open(f"/proc/{holder}/task/{holder}/children") as children:
        return int(children.read().split()[0])


def test_the_server_ends_with_its_process():
    """A worker that is killed leaves no server running."""
    code = (
        "import time\nfrom opinfo_tests.backends.remote_backend import ServerProcess\n"
        "from opinfo_tests.tests.test_remote_backend import pid_of\nprint(pid_of(ServerProcess()), flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as worker:
        server = int(worker.stdout.readline())
        worker.kill()
    end = time.monotonic() + 30
    while os.path.exists(f"/proc/{server}"):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_windows_of_one_memory():
    """Strides, offsets and shared memory of arguments are the case's: a write through one window is visible in the
    other."""
    memory = np.arange(12, dtype=np.float32).view(np.uint8)
    rows, column = Array(0, "float32", (2, 3), (24, 8), 4), Array(0, "float32", (3,), (4,), 0)
    backend = load_backend("remote-local")
    assert outcome(backend, Case("aten::transpose.int", (rows, 0, 1), {}, [memory])) == "pass"
    assert outcome(backend, Case("aten::mul_.Tensor", (rows, column), {}, [memory])) != "spurious-error"
    seen = backend.execute(Case("aten::fill_.Scalar", (rows, 7.0), {}, [memory]))
    np.testing.assert_array_equal(seen.buffers[0].view(np.float32), [0, 7, 2, 7, 4, 7, 6, 7, 8, 7, 10, 7])
    assert seen.alias == [(0, 4, (24, 8))]


class Faulty(Remote):
    """A server with three kernels whose faults the values alone do not show."""

    def _connected(self):
        def kernel(name, run):
            def called(*args, **kwargs):
                return run(torchnp.table[name], *args, **kwargs)

            called.schema = torchnp.table.schemas[name]
            return called

        needed = ("aten::as_strided", "aten::view.dtype", "aten::bitwise_not_", "aten::neg")
        table = {name: kernel(name, lambda f, *a, **k: f(*a, **k)) for name in needed}
        table["aten::transpose.int"] = kernel("aten::transpose.int", lambda f, *a: f(*a).copy(order="K"))
        table["aten::abs_"] = kernel("aten::abs_", lambda f, x: x)
        table["aten::sin"] = kernel("aten::sin", lambda f, x: (f(x), x.fill(0))[0])
        return rpc.local(table=table)


def test_what_values_do_not_show():
    backend = Faulty("local")
    x = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
    assert outcome(backend, call("aten::neg", x)) == "pass"
    assert outcome(backend, call("aten::transpose.int", x, 0, 1)) == "wrong-alias"  # the result is a copy
    assert outcome(backend, call("aten::sin", x)) == "wrong-alias"  # the argument is written
    assert outcome(backend, call("aten::abs_", x)) == "wrong-value"  # the argument is not written


def test_errors_are_judged_and_refusals_counted_apart():
    """An error is judged by the kernel's class and text, a refusal by its reason; calls without tensors are exempt."""
    backend = load_backend("remote-local")
    assert outcome(backend, call("aten::index_select", np.arange(4.0), 0, np.array([9]))) == "pass"
    assert outcome(backend, call("aten::mm", np.ones((2, 3)), np.ones((2, 3)))) == "pass"
    case = call("aten::nonzero", np.arange(4.0))
    verdict = run_case(case, TorchDevice("cpu"), backend)[0]
    assert verdict.outcome == REFUSED not in GOOD
    assert verdict.reason == "the shapes of results depend on values"
    assert backend.exempt(call("aten::zeros", [2, 3])) and not backend.exempt(case)


def test_no_such_transport():
    with pytest.raises(SystemExit, match="no transport 'pigeon': local, tcp, tls, grpc, grpcs"):
        load_backend("remote-pigeon")
