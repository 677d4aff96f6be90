"""A server that runs other libraries' operators; client and server agree on these when they connect."""

import subprocess
import sys

import msgspec
import numpy as np
import pytest

from torchnp import rpc
from torchnp.rpc import wire
from torchnp.tests.core.test_libraries import ROWS, TORCHS, package, run
from torchnp.tests.rpc import server_pool

__all__ = ["package"]  # a fixture

CALLS = """
from torchnp import rpc
with rpc.connect({address!r}) as session:
    x = session.send(torch.ones(2, 3))
    print(torch.ops.mylib.scale(x + 1, 3).publish().tolist())
    torch.ops.mylib.scale_(x)
    torch.ops.mylib.scale.out(x, 5, out=x)
    print(x.publish().tolist(), session.overloads["mylib::scale"])
"""


@pytest.fixture
def server(package, monkeypatch):
    """Return the address of a server process that has the package, and runs its library's operators."""
    (package / "mylib_rows.py").write_text(ROWS)
    monkeypatch.setenv("PYTHONPATH", str(package))
    with server_pool.process("--libraries", "mylib") as (address, _):
        monkeypatch.delenv("PYTHONPATH")
        yield address


def test_a_library_of_both_sides_is_called(server, package):
    said = run(TORCHS + CALLS.format(address=server), package).splitlines()
    assert said == [str([[6.0] * 3] * 2), f"{[[10.0] * 3] * 2} 3"]


def test_other_rows_than_the_servers_are_told_at_the_call(server, package):
    """The session works, and the operator's error says what to do."""
    rows = package / "mylib_rows.py"
    for client, paths in (
        ("without the package", ()),
        ("with another schema", (package,)),
    ):
        rows.write_text(rows.read_text().replace("factor=2", "factor=3"))
        torchs = TORCHS.replace("factor=2", "factor=3")
        code = CALLS.format(address=server).replace("print(torch.ops.mylib.scale(x + 1, 3).publish().tolist())", "")
        code = code.partition("    torch.ops.mylib.scale_")[0] + (
            "    print((x + 1).publish().tolist())\n"
            "    try:\n        torch.ops.mylib.scale(x)\n    except NotImplementedError as error:\n        print(error)\n"
        )
        *_, values, error = run(torchs + code, *paths).splitlines()
        assert values == str([[2.0] * 3] * 2), client
        assert "mylib::scale is another library's operator" in error and "has other rows for mylib" in error, client


def test_what_an_owner_asks_for_is_checked(package, monkeypatch):
    with pytest.raises(ValueError, match="'nolib' is no library with rows in torchnp.table; those with rows are"):
        rpc.local(libraries=["nolib"])
    with pytest.raises(ValueError, match="'aten' is no library"):
        rpc.local(libraries=["aten"])
    with pytest.raises(ValueError, match="give no table of your own"):
        rpc.local(libraries=["torchvision"], table={})
    monkeypatch.setenv("PYTHONPATH", str(package))
    command = [sys.executable, "-m", "torchnp.rpc.server", "--libraries", "mylib", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "library mylib: 1 of these" in done.stdout, done.stderr


def test_what_depends_on_values_is_not_offered():
    """`nms` returns as many boxes as remain."""
    with rpc.local(libraries=["torchvision"]) as session:
        assert "torchvision::roi_align" in session.index and "torchvision::nms" not in session.index
        assert session.index["torchvision::roi_align"] >= len(wire.agreement().names)


def test_another_librarys_operator_keeps_no_rows_apart(package):
    """The kernel is not known to keep an owner's rows separate, so nothing computed by it is released."""
    said = run(
        TORCHS
        + """
import numpy as np
from torchnp import rpc
import mylib_rows
with rpc.local(libraries=["mylib"], datasets={"d": np.ones((5, 2), np.float32)}) as session:
    x = torch.ops.mylib.scale(session.dataset("d"))
    for asked in ({}, {"reduce": "sum", "clip": 1.0, "eps": 1.0}):
        try:
            x.publish(**asked)
        except rpc.PrivacyError as error:
            print(error)
""",
        package,
    ).splitlines()
    assert "exact values of owner data are not released" in said[1]
    assert "mixes an owner's rows (at mylib::scale)" in said[2]


@pytest.mark.parametrize("ops", [0, wire.MAX_LIBRARY_OPS + 1])
def test_a_server_cannot_announce_any_number(ops):
    frame = wire.encode(wire.Welcome("0", 1, 1, [], [wire.Library("mylib", ops, "")]))
    with pytest.raises((rpc.ProtocolError, msgspec.ValidationError)):
        wire.decode_reply(frame)


def test_numbers_follow_the_servers_order():
    agreed = wire.agreement().with_libraries(["torchvision"])
    (count, digest) = agreed.libraries["torchvision"]
    theirs = [("unknown", 7, "x"), ("torchvision", count, digest), ("aten", 3, digest)]
    mine, differing = wire.agreement().with_server_libraries(theirs)
    assert differing == {"unknown", "aten"} and mine.digest == agreed.digest
    first = min(i for name, i in mine.index.items() if name.startswith("torchvision::"))
    assert first == len(wire.agreement().names) + 7 and len(mine.names) == len(agreed.names) + 10
    assert np.all([mine.names[i] == name for name, i in mine.index.items()])
