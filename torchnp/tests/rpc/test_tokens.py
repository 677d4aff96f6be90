"""The rights of tokens: datasets, releases, limits, sessions and operators."""

from __future__ import annotations

import contextlib
import re

import numpy as np
import pytest
import torch

from torchnp import rpc
from torchnp.core.schema import load
from torchnp.rpc import wire
from torchnp.rpc.server.config.tokens import Token, hash_of, new_token
from torchnp.rpc.server.privacy.ledger import Ledger
from torchnp.rpc.server.session.protocol import Connection
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.server.transports.server import Server

Limits = rpc.Limits


def test_all_tokens_are_compared_whichever_is_presented(monkeypatch):
    compared = []
    monkeypatch.setattr(
        "torchnp.rpc.server.config.tokens.hmac.compare_digest", lambda a, b: compared.append(a) or a == b
    )
    secrets = [new_token() for _ in range(5)]
    state = ServerState({}, tokens=[Token(f"t{i}", hash_of(s)) for i, s in enumerate(secrets)], token="the one of all")
    for presented, name in (
        (secrets[0], "t0"),
        (secrets[4], "t4"),
        ("the one of all", "client"),
        ("wrong", None),
        ("", None),
    ):
        compared.clear()
        found = state.admits(presented)
        assert (found and found.client) == name
        assert len(compared) == 6
        assert len({len(c) for c in compared}) == 1


@pytest.fixture(scope="module")
def rights(tmp_path_factory):
    """Return a server with three tokens, and the tokens."""
    ledger = tmp_path_factory.mktemp("rights") / "ledger.db"
    books = Ledger(ledger, create=True)
    books.set_budget("digits", 3.0, 1e-6)
    for name in ("alice", "bob"):
        books.set_budget("digits", 1.0, 1e-6, name)
    books.close()  # a forked process must not have it open
    secrets = {name: new_token() for name in ("alice", "bob", "carol")}
    tokens = [
        Token("alice", hash_of(secrets["alice"])),
        Token("bob", hash_of(secrets["bob"]), ["digits"], release=False, limits=Limits(max_bytes=1000), max_clients=2),
        Token("carol", hash_of(secrets["carol"]), datasets=["*.x"], allow=["aten::add*", "aten::mm"]),
    ]
    data = {"digits.x": np.ones((100, 2)), "digits.y": np.ones(100), "secret": np.ones((7, 2))}
    allow = ["aten::[a-m]*"]
    state = ServerState(datasets=data, ledger=ledger, tokens=tokens, allow=allow)
    with Server(state) as server:
        yield f"tcp://127.0.0.1:{server.port}", secrets, books


def test_a_token_sees_its_datasets_alone(rights):
    where, secrets, _ = rights
    seen = {"alice": ["digits.x", "digits.y", "secret"], "bob": ["digits.x", "digits.y"], "carol": ["digits.x"]}
    for name, names in seen.items():
        with rpc.connect(where, secrets[name]) as session:
            assert sorted(session.datasets) == names
    with rpc.connect(where, secrets["bob"]) as session:
        id_ = session.channel.open("secret", make=int)  # an honest client would not request this
        with pytest.raises(ValueError, match="the server has no dataset 'secret'"):
            session.channel.publish(id_)
    for wrong in (None, "wrong", secrets["bob"][:-1]):
        with pytest.raises(rpc.AuthenticationError, match="the token is missing or wrong"):
            rpc.connect(where, wrong)


def test_releases_are_paid_by_the_tokens_name(rights):
    where, secrets, books = rights
    with rpc.connect(where, secrets["alice"]) as session:
        x = session.dataset("digits.x")
        assert x.quote(reduce="mean", clip=1.0, eps=0.1).budget == 1.0
        x.publish(reduce="mean", clip=1.0, eps=0.1)
    assert books.account("alice", "digits").spent > 0
    assert books.account("bob", "digits").spent == books.account("carol", "digits").spent == 0
    with rpc.connect(where, secrets["bob"]) as session:
        x = session.dataset("digits.x")
        for ask in (x.publish, x.quote):
            with pytest.raises(rpc.PrivacyError, match="the owner of the server gives the client 'bob' no releases"):
                ask(reduce="mean", clip=1.0, eps=0.1)
    with rpc.connect(where, secrets["carol"]) as session, pytest.raises(rpc.BudgetError, match="'carol'"):
        session.dataset("digits.x").publish(reduce="mean", clip=1.0, eps=0.1)
    assert books.account("bob", "digits").spent == books.account("carol", "digits").spent == 0


def test_a_token_has_its_limits(rights):
    where, secrets, _ = rights
    with rpc.connect(where, secrets["bob"]) as session:
        session.send(torch.zeros(300))
        with pytest.raises(rpc.QuotaError, match="the server allows 1,000: 1,200 more are too many"):
            session.sync()
    with rpc.connect(where, secrets["alice"]) as session:
        assert session.send(torch.zeros(300)).publish().shape == (300,)


def test_a_token_has_so_many_sessions(rights):
    where, secrets, _ = rights
    with contextlib.ExitStack() as stack:
        until_two = [stack.enter_context(rpc.connect(where, secrets["bob"])) for _ in range(2)]
        with pytest.raises(rpc.QuotaError, match="the server has 2 sessions of the client 'bob', as many as it takes"):
            rpc.connect(where, secrets["bob"])
        stack.enter_context(rpc.connect(where, secrets["alice"]))
        until_two[0].close()
        for _ in range(5):  # a closed session does not count, although its process may still exist
            rpc.connect(where, secrets["bob"]).close()


def test_a_token_that_is_taken_away_while_its_session_opens(monkeypatch):
    with Server(ServerState(tokens=[Token("ann", hash_of("a")), Token("bob", hash_of("b"))])) as server:
        free = server._slot

        async def waited(rights):
            server.know([Token("ann", hash_of("new")), Token("bob", hash_of("b"))])
            return await free(rights)

        monkeypatch.setattr(server, "_slot", waited)
        with pytest.raises(rpc.AuthenticationError), rpc.connect(f"tcp://127.0.0.1:{server.port}", "a") as session:
            session.send(torch.ones(3)).publish()
        monkeypatch.setattr(server, "_slot", free)
        for token in ("new", "b"):
            with rpc.connect(f"tcp://127.0.0.1:{server.port}", token) as session:
                assert session.send(torch.ones(3)).sum().publish() == 3


# ---------------------------------------------------------------- operators


def test_operators_outside_of_the_list_are_refused_with_the_rule(rights):
    where, secrets, _ = rights
    with rpc.connect(where, secrets["carol"]) as session:
        x = session.send(torch.ones(2, 2))
        assert torch.add(x, x).publish().tolist() == [[2, 2], [2, 2]]
        assert (x @ x).publish().tolist() == [[2, 2], [2, 2]]
        with pytest.raises(
            RuntimeError, match="aten::exp is refused: .* the client 'carol' only aten::add\\*, aten::mm"
        ):
            x.exp().publish()
        with pytest.raises(
            RuntimeError, match="aten::tanh is refused: the server's owner allows clients only aten::\\[a-m"
        ):
            x.tanh().publish()
        y = session.send(torch.ones(2))
        y.mul_(2)
        with pytest.raises(RuntimeError, match=r"aten::mul_\.Tensor is refused"):
            y.publish()
    with rpc.connect(where, secrets["alice"]) as session:
        x = session.send(torch.ones(2, 2))
        assert x.exp().publish().shape == (2, 2)
        with pytest.raises(RuntimeError, match="aten::tanh is refused"):
            x.tanh().publish()


def test_no_kernel_outside_of_the_list_runs_whatever_the_frame():
    def neg(self):
        raise AssertionError("it ran")

    neg.schema = load()["aten::neg"]
    table = {"aten::neg": neg, "aten::abs": neg}
    state = ServerState(table, datasets={"x": np.ones(3)}, allow=["aten::abs"])
    connection = Connection(state)
    agreed = state.agreement
    connection.handle(wire.encode(wire.Hello(wire.VERSION, agreed.digest, len(agreed.names), "x", "")))
    connection.handle(wire.encode(wire.Open(0, 0, "x")))
    for seq, args in enumerate(([wire.Handle(0)], [], ["x"], [wire.Handle(0)] * 3), 1):
        op = wire.Op(agreed.index["aten::neg"], seq, 1, args, {})
        err, _ = (wire.decode_reply(r) for r in connection.handle(wire.encode(wire.Ops(seq, [op]))))
        assert err.text == "aten::neg is refused: the server's owner allows clients only aten::abs"
    assert not connection.executor.pace._ran


def test_a_new_token_is_never_read_as_an_option():
    """A token that begins with a dash cannot be a value of ``--token``."""
    assert all(re.fullmatch("[0-9a-f]{64}", new_token()) for _ in range(200))
