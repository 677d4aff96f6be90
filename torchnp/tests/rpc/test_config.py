"""An owner's settings for a server: server.toml, the command line (which overrides it), and datasets from files."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from torchnp import rpc
from torchnp.cli import main
from torchnp.rpc.server.config import datasets
from torchnp.rpc.server.config.settings import SETTINGS
from torchnp.rpc.server.config.tokens import Token, hash_of, new_token
from torchnp.rpc.server.privacy.ledger import Ledger
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.server.transports.certificate_names import names_in
from torchnp.tests.docs.site_modules import DOCS, site_module
from torchnp.tests.rpc import server_pool
from torchnp.tests.rpc.certificates import Authority

Limits = rpc.Limits


@pytest.fixture
def told(monkeypatch):
    """Return the arguments that `serve` would get."""
    arguments = {}
    monkeypatch.setattr("torchnp.rpc.server.transports.server.serve", lambda **kwargs: arguments.update(kwargs))
    monkeypatch.delenv("TORCHNP_TOKEN", raising=False)
    return arguments


# ---------------------------------------------------------------- the command line


def test_serve_reads_its_options(tmp_path, monkeypatch, told):
    monkeypatch.setenv("TORCHNP_TOKEN", "of-the-environment")
    np.save(tmp_path / "x.npy", np.arange(3.0))
    (tmp_path / "token").write_text("of-the-file\n")
    assert main(["serve"]) == 0
    assert (told["host"], told["port"], told["token"]) == ("127.0.0.1", 7077, "of-the-environment")
    assert (told["limits"], told["max_clients"], told["datasets"], told["bucket"]) == (Limits(), 64, {}, 0.005)
    assert (told["tokens"], told["allow"], told["metrics"]) == ([], None, None)
    assert [told[name] for name in ("tls_cert", "tls_key", "tls_client_ca", "grpc")] == [None, None, None, False]
    options = ["--token-file", f"{tmp_path}/token", "--dataset", f"x={tmp_path}/x.npy", "--max-bytes", "1.5G"]
    times = [
        "--op-seconds",
        "5",
        "--idle-seconds",
        "60",
        "--lease-seconds",
        "0",
        "--cpu-seconds",
        "600",
        "--bucket-ms",
        "20",
    ]
    times += ["--grpc", "--tls-cert", "c.pem", "--tls-key", "k.pem", "--tls-client-ca", "ca.pem"]
    more = ["--allow", "aten::mm", "--allow", "aten::add*", "--metrics", "[::1]:9100"]
    assert (
        main(["serve", *options, "--max-objects", "10", "--max-clients", "2", "--max-memory", "8GiB", *times, *more])
        == 0
    )
    assert told["token"] == "of-the-file"
    assert told["limits"] == Limits(3 << 29, 10, 5, 60, 0, 600)
    names = ("tls_cert", "tls_key", "tls_client_ca", "grpc")
    assert [told[name] for name in names] == ["c.pem", "k.pem", "ca.pem", True]
    assert (told["bucket"], told["allow"], told["metrics"]) == (0.02, ("aten::mm", "aten::add*"), ("::1", 9100))
    assert (told["max_clients"], told["max_memory"], told["datasets"]["x"].tolist()) == (2, 8 << 30, [0, 1, 2])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--port", "70000"], "--port 70000: write a port from 1 to 65535, or 0 for a free one"),
        (["--port", "x"], "--port x: write a port"),
        (["--token", "a", "--token-file", "b"], "not both"),
        (["--token-file", "nosuch"], "--token-file nosuch: No such file"),
        (["--token", ""], "a token has 1 to 1024 bytes"),
        (["--dataset", "x"], "--dataset x: write NAME=FILE"),
        (["--dataset", "x=nosuch.npy"], "--dataset x=nosuch.npy: nosuch.npy: No such file"),
        (["--dataset", "x=text.npy"], "text.npy: this is no .npy file of numbers"),
        (["--dataset", "x=text.md"], "text.md has to end in .npy, .npz, .safetensors"),
        (["--dataset", "x=strings.npy"], "strings.npy: this is no .npy file of numbers: its dtype is '<U1'"),
        (["--dataset", "x=x.npy", "--dataset", "x=x.npy"], "there are two of the name 'x'"),
        (["--max-clients", "0"], "--max-clients 0: write a whole number of at least 1"),
        (["--max-objects", "-5"], "--max-objects -5: write a whole number of at least 1"),
        (["--max-bytes", "0"], "--max-bytes 0: write a number of bytes, at least 1"),
        (["--max-bytes", "much"], "--max-bytes much: write a number of bytes, at least 1: 4096, "),
        (["--op-seconds", "nan"], "--op-seconds nan: write a number of seconds above 0"),
        (["--lease-seconds", "-1"], "--lease-seconds -1: write a number of seconds from 0 on"),
        (["--tls-cert", "c.pem"], "give --tls-cert FILE and --tls-key FILE"),
        (
            ["--tls-cert", "c.pem", "--tls-key", "k.pem"],
            "cannot use the certificate c.pem and the key k.pem: No such file",
        ),
        (["--max-memory", "10M"], "of address space before anybody uses it"),
        (["--allow", "aten::nosuch*"], "allow: 'aten::nosuch*' means no operator that can be sent"),
        (["--log-level", "loud"], "--log-level loud: write DEBUG, INFO, WARNING or ERROR"),
        (["--metrics", ":9"], "--metrics :9: write a port from 1 to 65535, 0 for a free one"),
        (["--ledger", "nosuch.db"], "there is no ledger nosuch.db: `torchnp owner budget` makes one"),
        (["--config", "nosuch.toml"], "nosuch.toml: No such file"),
    ],
)
def test_serve_says_what_is_wrong(options, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.npy").write_text("text")
    np.save("strings.npy", np.array(["a"]))
    np.save("x.npy", np.arange(3))
    options = [f"{a}={b}" for a, b in zip(options[::2], options[1::2])]
    assert main(["serve", "--check", *options] if "10M" not in options[0] else ["serve", *options]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


# ---------------------------------------------------------------- the file

EVERYTHING = """
host = "0.0.0.0"
port = 7000
token_file = "token"
ledger = "ledger.db"
tls_cert = "server.pem"
tls_key = "key.pem"
tls_client_ca = "ca.pem"
grpc = true
max_bytes = "1G"
max_objects = 1000
max_memory = "4G"
op_seconds = 5
idle_seconds = 60.5
lease_seconds = 30
cpu_seconds = 3600
bucket_ms = 10
max_clients = 8
allow = ["aten::*"]
libraries = ["torchvision"]
log_level = "warning"
log_format = "json"
metrics = 9100

[datasets]
people = "data/x.npy"
digits.x = "data/digits.npz:x"
digits.y = "data/digits.npz:y"

[tokens.alice]
hash = "sha256:AAA"
datasets = ["digits"]
release = false
allow = ["aten::mm", "aten::add*"]
max_bytes = "1M"
op_seconds = 2
lease_seconds = 0
max_clients = 3

[tokens."bob at work"]
hash = "sha256:BBB"
""".replace("AAA", "a" * 64).replace("BBB", "b" * 64)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "x.npy", np.arange(6.0).reshape(3, 2))
    np.savez(tmp_path / "data" / "digits.npz", x=np.ones((4, 2)), y=np.arange(4))
    (tmp_path / "token").write_text("sesame\n")
    (tmp_path / "server.toml").write_text(EVERYTHING)
    authority = Authority(tmp_path, "ours")
    pair = authority.issued("127.0.0.1")
    for file, name in ((pair.cert, "server.pem"), (pair.key, "key.pem"), (authority.ca, "ca.pem")):
        file.rename(tmp_path / name)
    Ledger(tmp_path / "ledger.db", create=True).close()
    return tmp_path


def test_a_file_says_everything_that_the_command_line_can(folder, told):
    assert {row.name for row in SETTINGS} <= {line.partition(" ")[0] for line in EVERYTHING.splitlines()}
    assert main(["serve", "--config", f"{folder}/server.toml"]) == 0
    limits = Limits(1 << 30, 1000, 5, 60.5, 30, 3600)
    alice, bob = told.pop("tokens")
    assert [t.name for t in told.pop("reread")()] == ["client", "alice", "bob at work"]
    arrays = told.pop("datasets")
    assert {name: a.shape for name, a in arrays.items()} == {"people": (3, 2), "digits.x": (4, 2), "digits.y": (4,)}
    assert told == {
        "host": "0.0.0.0", "port": 7000, "token": "sesame", "ledger": f"{folder}/ledger.db", "limits": limits,
        "max_clients": 8, "max_memory": 4 << 30, "bucket": 0.01, "allow": ("aten::*",), "libraries": ("torchvision",),
        "metrics": ("127.0.0.1", 9100),
        "check": False, "tls_cert": f"{folder}/server.pem", "tls_key": f"{folder}/key.pem",
        "tls_client_ca": f"{folder}/ca.pem", "grpc": True,
    }  # fmt: skip
    own = Limits(1 << 20, 1000, 2, 60.5, 0, 3600)
    assert alice == Token("alice", "sha256:" + "a" * 64, ("digits",), False, ("aten::mm", "aten::add*"), own, 3)
    assert bob == Token("bob at work", "sha256:" + "b" * 64, limits=limits)


def test_options_go_before_the_file(folder, told, monkeypatch):
    monkeypatch.chdir(folder)
    np.save("other.npy", np.zeros(5))
    options = [
        "--port",
        "8000",
        "--max-bytes",
        "2G",
        "--dataset",
        "people=other.npy",
        "--token",
        "open",
        "--allow",
        "aten::mm",
        "--no-grpc",
    ]
    assert main(["serve", "--config", "server.toml", *options]) == 0
    assert told["grpc"] is False
    assert (told["port"], told["limits"].max_bytes, told["token"], told["allow"]) == (
        8000,
        2 << 30,
        "open",
        ("aten::mm",),
    )
    assert told["limits"].max_objects == 1000
    assert told["datasets"]["people"].shape == (5,)
    assert told["datasets"]["digits.y"].shape == (4,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port = ", "server.toml: Invalid value (at "),
        ("prt = 5", "server.toml: there is no prt; did you mean port?"),
        ("max-bytes = 5", "server.toml: there is no max-bytes; did you mean max_bytes?"),
        ("zzz = 5", "server.toml: there is no zzz; there are host, port, token_file"),
        ('token = "secret"', "server.toml: there is no token; tokens are kept hashed: `torchnp owner token NAME`"),
        ('port = "7077"', 'server.toml: port = "7077": write a port from 1 to 65535, or 0 for a free one'),
        ("port = true", "server.toml: port = true: write a port"),
        ('max_objects = "10"', 'server.toml: max_objects = "10": write a whole number of at least 1'),
        ('max_bytes = "many"', 'server.toml: max_bytes = "many": write a number of bytes, at least 1'),
        ("max_bytes = 1.5", "server.toml: max_bytes = 1.5: write a number of bytes"),
        ("op_seconds = nan", "server.toml: op_seconds = nan: write a number of seconds above 0"),
        ('allow = "aten::mm"', 'server.toml: allow = "aten::mm": write a list of operators or patterns of them'),
        ("allow = []", "server.toml: allow = []: write a list"),
        ("lease_seconds = -1", "server.toml: lease_seconds = -1: write a number of seconds from 0 on"),
        ("grpc = 1", "server.toml: grpc = 1: write true or false"),
        ('tls_cert = "c.pem"', "give --tls-cert FILE and --tls-key FILE"),
        ("host = 1", "server.toml: host = 1: write a text that is not empty"),
        ("log_format = 1", "server.toml: log_format = 1: write text or json"),
        ('token_file = "nosuch"', "server.toml: token_file nosuch: No such file"),
        ('datasets = "x.npy"', 'server.toml: datasets = "x.npy": write NAME = "FILE.npy"'),
        ("[datasets]\nx = 5", "server.toml: datasets.x = 5: write the name of a file"),
        ('[datasets]\nx = "nosuch.npy"', "server.toml: datasets.x: nosuch.npy: No such file"),
        ('[datasets]\nx = "data/digits.npz:z"', "server.toml: datasets.x: data/digits.npz has no array 'z'; it has x, y"),
        ('[datasets]\nd = "data/digits.npz"\nd.x = "data/x.npy"', "server.toml: Cannot overwrite a value"),
        ('[datasets]\nd = "data/digits.npz"\n"d.x" = "data/x.npy"', "datasets.d.x: there are two of the name 'd.x'"),
        ("tokens = 5", "server.toml: tokens = 5: write a table [tokens.NAME] for each"),
        ("[tokens.a]", "server.toml: tokens.a: write a table [tokens.a] with hash = what `torchnp owner token` printed"),
        ('[tokens.a]\ncertificate = 1', "server.toml: tokens.a: certificate = 1: write a text that is not empty"),
        ('[tokens.a]\ncertificate = "a"', "known by certificates only with --tls-client-ca FILE"),
        ('[tokens.a]\ncertificate = "a"\n[tokens.b]\ncertificate = "a"', "'b' has the certificate of another"),
        ('[tokens.a]\nhash = "x"', "server.toml: tokens.a: the hash of the token 'a' is sha256: and 64 hexadecimal digits"),
        ('[tokens.a]\nhash = "x"\nrights = 1', "tokens.a: there is no rights; there are hash, certificate, datasets, release, max_bytes"),
        ('[tokens.a]\nhash = "x"\nport = 1', "server.toml: tokens.a: there is no port; there are hash"),
        ('[tokens.a]\nhash = "x"\nrelease = "no"', 'tokens.a: release = "no": write true or false'),
        ('[tokens."*"]\nhash = "x"', "server.toml: tokens.*: the name * stands for all clients together"),
        (f'[tokens.a]\nhash = "sha256:{"a" * 64}"\ndatasets = ["zz"]', "tokens.a.datasets: there is no dataset 'zz'"),
        (f'[tokens.a]\nhash = "sha256:{"a" * 64}"\nallow = ["mm"]', "allow: 'mm' means no operator"),
        (f'[tokens.a]\nhash = "sha256:{"a" * 64}"\n[tokens.b]\nhash = "sha256:{"a" * 64}"', "'b' has the hash of another"),
    ],
)  # fmt: skip
def test_the_file_says_what_is_wrong_in_it(folder, monkeypatch, capsys, text, said):
    monkeypatch.chdir(folder)
    (folder / "server.toml").write_text(text)
    assert main(["serve", "--check", "--config", "server.toml"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_check_tells_what_would_be_served(folder, capsys):
    assert main(["serve", "--check", "--config", f"{folder}/server.toml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "dataset digits.x: float64 (4, 2), 64 bytes" in lines
    (alice,) = [line for line in lines if line.startswith("client alice: ")]
    assert "2 datasets, no releases, 1,048,576 bytes" in alice
    assert not [line for line in lines if "sesame" in line or "aaaa" in line]


# ---------------------------------------------------------------- tokens in the file, which change while the server runs


def test_a_token_is_made_and_shown_once(capsys, folder, told):
    assert main(["owner", "token", 'carol of "X" 😀']) == 0
    out = capsys.readouterr().out
    token = out.splitlines()[0].rpartition(" ")[2]
    assert len(token) >= 43
    (folder / "server.toml").write_text(out.partition("\n\n")[2])
    assert token not in (folder / "server.toml").read_text()
    assert main(["serve", "--config", f"{folder}/server.toml"]) == 0
    (made,) = told["tokens"]
    assert (made.name, made.hash) == ('carol of "X" 😀', hash_of(token))
    assert main(["owner", "token", "*"]) == 2
    assert "stands for all clients together" in capsys.readouterr().err


def adds(session):
    return (session.send(torch.ones(3)) + 1).publish().tolist() == [2, 2, 2]


def test_tokens_are_read_again_at_sighup(tmp_path):
    secret = {name: new_token() for name in ("alice", "bob", "carol")}
    table = {name: f'[tokens.{name}]\nhash = "{hash_of(s)}"\n' for name, s in secret.items()}
    table["carol"] += 'datasets = ["x"]\n'
    np.save(tmp_path / "x.npy", np.ones(3))
    np.save(tmp_path / "y.npy", np.ones(3))
    file = tmp_path / "server.toml"
    settings = 'port = 0\n[datasets]\nx = "x.npy"\ny = "y.npy"\n'
    log = []

    def told(text, words):
        """Change the file, signal the server, and wait for the message in its log."""
        file.write_text(settings + text)
        process.send_signal(signal.SIGHUP)
        while words not in (line := process.stderr.readline()):
            assert line, log
            log.append(line)

    file.write_text(settings + table["alice"] + table["bob"])
    with server_pool.process("--config", str(file)) as (where, process):
        alice, bob = (rpc.connect(where, secret[name]) for name in ("alice", "bob"))
        assert adds(alice) and adds(bob)
        told(table["bob"] + table["carol"], "tokens read tokens=2 gone=1")
        with pytest.raises(rpc.AuthenticationError, match="lets the session's token in no more"):
            server_pool.until(lambda: not adds(alice))  # the session's process is being ended
        with pytest.raises(rpc.AuthenticationError, match="the token is missing or wrong"):
            rpc.connect(where, secret["alice"])
        with rpc.connect(where, secret["carol"]) as carol:
            assert list(carol.datasets) == ["x"]
            (carol.dataset("x") + 1).sum()
            assert adds(carol)
        told("[tokens.bob]\nhash = 5\n", "tokens stay as they were error=")
        told('[tokens.bob]\ncertificate = "bob"\n', "tokens stay as they were error=")
        assert adds(bob)
        rpc.connect(where, secret["bob"]).close()
        told("", "tokens read tokens=0 gone=2")  # no change follows from this
        for token in (None, secret["bob"]):
            with pytest.raises(rpc.AuthenticationError):
                rpc.connect(where, token)
        with pytest.raises(rpc.AuthenticationError):
            server_pool.until(lambda: not adds(bob))
    assert not any(s in line for line in log for s in secret.values())


@pytest.mark.parametrize("grpc", [False, True], ids=["tls", "grpc"])
def test_a_certificate_names_the_client(tmp_path, grpc):
    ours, secret = Authority(tmp_path, "ours"), new_token()
    pair = ours.issued("127.0.0.1")
    (tmp_path / "server.toml").write_text(f"""
port = 0
grpc = {str(grpc).lower()}
tls_cert = "{pair.cert}"
tls_key = "{pair.key}"
tls_client_ca = "{ours.ca}"
[tokens.ann]
certificate = "ann@example.org"
allow = ["aten::add*"]
[tokens.bob]
hash = "{hash_of(secret)}"
certificate = "bob@example.org"
[tokens.carol]
hash = "{hash_of(new_token())}"
""")
    with server_pool.process("--config", str(tmp_path / "server.toml")) as (where, process):

        def session(person, token=None):
            mine = ours.issued(f"{person}@example.org")
            return rpc.connect(where, token, ca=ours.ca, cert=mine.cert, key=mine.key)

        with session("ann") as ann:
            assert adds(ann)
            ann.send(torch.ones(3)).mul(2)
            with pytest.raises(RuntimeError, match="allows the client 'ann' only aten::add"):
                ann.sync()
        with session("bob", secret) as bob:
            assert adds(bob)
        for person, token in (("eve", None), ("bob", None), ("ann", secret), ("ann", "wrong"), ("eve", secret)):
            with pytest.raises(rpc.AuthenticationError, match="or none with the certificate of a client"):
                session(person, token)
        mallory = ours.issued("mallory@example.org", common_name="ann@example.org\0.example.net")
        with pytest.raises(rpc.AuthenticationError, match="or none with the certificate of a client"):
            rpc.connect(where, ca=ours.ca, cert=mallory.cert, key=mallory.key)
        process.terminate()
        _, err = process.communicate(timeout=20)
    assert [err.count(f"session opened client={name}") for name in ("ann", "bob", "eve", "carol")] == [1, 1, 0, 0]


def test_names_are_read_in_full(tmp_path):
    ours = Authority(tmp_path, "ours")
    long = ".".join(["a" * 60] * 3)
    for identity in ("ann@example.org", "example.org", long, "127.0.0.1", "::1"):
        assert names_in(ours.issued(identity).cert.read_text()) == {identity}
    for name in ("é", "a\0b", "\u2028"):
        assert names_in(ours.issued("example.org", common_name=name).cert.read_text()) == {"example.org", name}
    whole = ssl.PEM_cert_to_DER_cert(ours.issued("example.org").cert.read_text())
    with pytest.raises(ValueError, match="parsing asn1 value"):
        names_in(ssl.DER_cert_to_PEM_cert(whole[:99]))


# ---------------------------------------------------------------- datasets from files

Tensors = dict[str, tuple[str, list[int], bytes]]


def safetensors(tensors: Tensors, **changes) -> bytes:
    header, data = {"__metadata__": {"made": "by hand"}}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]} | changes
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def test_safetensors_are_read(tmp_path):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    half = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    tensors = {
        "odd": ("U8", [3], b"abc"),  # an odd length, so that the next array is not aligned
        "x": ("F32", [2, 3], x.tobytes()),
        "half": ("BF16", [2], half.view(torch.uint8).numpy().tobytes()),
        "flags": ("BOOL", [3], b"\x00\x01\x07"),
        "scalar": ("I64", [], (-5).to_bytes(8, "little", signed=True)),
        "none": ("F64", [0, 4], b""),
    }
    (tmp_path / "all.safetensors").write_bytes(safetensors(tensors))
    found = datasets.load("d", "all.safetensors", tmp_path)
    assert sorted(found) == [f"d.{key}" for key in sorted(tensors)]
    assert np.array_equal(found["d.x"], x)
    assert found["d.half"].astype(np.float32).tolist() == [1.5, -2.0]
    assert found["d.flags"].view(np.uint8).tolist() == [0, 1, 1]
    assert (found["d.scalar"].shape, int(found["d.scalar"]), found["d.none"].shape) == ((), -5, (0, 4))
    assert np.array_equal(datasets.load("mine", "all.safetensors:x", tmp_path)["mine"], x)


ONE = {"x": ("F32", [2], bytes(8))}


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "header of 0 bytes"),
        (b"short", "longer than the file"),
        ((2**40).to_bytes(8, "little") + b"{}", "longer than the file"),
        ((2).to_bytes(8, "little") + b"[]", "its header is no object"),
        ((2).to_bytes(8, "little") + b"{x", "this is no .safetensors file"),
        ((200_000).to_bytes(8, "little") + b"[" * 200_000, "this is no .safetensors file"),
        (safetensors(ONE, dtype="O"), "'x' has the dtype 'O', and there are BOOL, U8"),
        (safetensors(ONE, shape=[2, 2]), "'x' of shape [2, 2] and dtype F32 does not fit its place [0, 8]"),
        (safetensors(ONE, shape=[2**61, 4]), "does not fit its place"),
        (safetensors(ONE, shape=[-2]), "is no list of sizes"),
        (safetensors(ONE, shape=[True, 2]), "is no list of sizes"),
        (safetensors(ONE, data_offsets=[8, 0]), "does not fit its place"),
        (safetensors(ONE, data_offsets=[8, 16]), "begin at 8 and not at 0"),
        (safetensors(ONE, data_offsets=[0]), "does not fit its place"),
        (safetensors(ONE) + b"more", "its tensors have 8 bytes and the file 12"),
        (safetensors(ONE)[:-1], "its tensors have 8 bytes and the file 7"),
        (safetensors(ONE | {"y": ("F32", [2], bytes(8))}, data_offsets=[0, 8]), "begin at 0 and not at 8"),
    ],
)
def test_safetensors_that_lie_are_refused(tmp_path, raw, said):
    (tmp_path / "x.safetensors").write_bytes(raw)
    with pytest.raises(ValueError) as error:
        datasets.load("x", "x.safetensors", tmp_path)
    assert str(error.value).startswith("x.safetensors: ")
    assert said in str(error.value)


def test_files_are_mapped_and_clients_cannot_write_them(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(1000.0))
    (tmp_path / "y.safetensors").write_bytes(safetensors({"y": ("F64", [1000], np.arange(1000.0).tobytes())}))
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    found = datasets.load("x", "x.npy", tmp_path) | datasets.load("y", "y.safetensors:y", tmp_path)
    maps = Path("/proc/self/maps").read_text() if sys.platform == "linux" else "x.npy y.safetensors"
    assert "x.npy" in maps and "y.safetensors" in maps
    state = ServerState(datasets=found)
    for name, array in found.items():
        assert np.shares_memory(state.datasets[name], array)
        assert not state.datasets[name].flags.writeable
    before = (tmp_path / "x.npy").read_bytes(), (tmp_path / "y.safetensors").read_bytes()
    with rpc.local(datasets=found) as session:
        for name in found:
            with pytest.raises(RuntimeError, match="read-only"):
                session.dataset(name).add_(1)
                session.sync()
    assert before == ((tmp_path / "x.npy").read_bytes(), (tmp_path / "y.safetensors").read_bytes())
    with pytest.raises(ValueError, match=r"this is no \.npy file of numbers"):
        datasets.load("x", "objects.npy", tmp_path)


# ---------------------------------------------------------------- whole servers


def test_servers_from_the_file_serve(folder):
    token = new_token()
    text = 'port = 0\nmax_bytes = 2000\nlog_level = "error"\n[datasets]\npeople = "data/x.npy"\n'
    (folder / "server.toml").write_text(f'{text}[tokens.alice]\nhash = "{hash_of(token)}"\n')
    command = [sys.executable, "-m", "torchnp", "serve", "--config", f"{folder}/server.toml"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        where = "tcp://" + process.stdout.readline().split()[2].rstrip(";")
        with rpc.connect(where, token) as session:
            assert session.datasets == {"people": (torch.Size([3, 2]), torch.float64)}
            session.send(torch.zeros(501))
            with pytest.raises(rpc.QuotaError, match="the server allows 2,000"):
                session.sync()
        process.terminate()
        assert process.communicate(timeout=20)[1] == ""


def test_the_file_of_the_docs_is_one(folder, monkeypatch, capsys):
    """The examples of server.toml in docs/remote_server.md can be served."""
    text = site_module("blocks").texts(DOCS / "remote_server.md", "toml")[0]
    np.save(folder / "patients.npy", np.ones((3, 2)))
    (folder / "data" / "digits.npz").rename(folder / "digits.npz")
    (folder / "model.safetensors").write_bytes(safetensors({"encoder.bias": ("F32", [2], bytes(8))}))
    (folder / "server.toml").write_text(text)
    monkeypatch.chdir(folder)
    assert main(["serve", "--check", "--config", "server.toml"]) == 0
    out = capsys.readouterr().out
    assert "dataset digits.y: int64 (4,), 32 bytes" in out
    assert "dataset weights: float32 (2,), 8 bytes" in out
    assert "client alice: a token" in out


@pytest.mark.skipif(sys.platform != "linux", reason="address space is told by /proc")
def test_mapped_datasets_leave_sessions_the_memory_that_they_may_have(tmp_path):
    with open(tmp_path / "big.safetensors", "wb") as file:  # a sparse file of 8 GiB
        file.write(safetensors({"x": ("F32", [2, 2**30], b"")}, data_offsets=[0, 2**33]))
        file.truncate(file.tell() + 2**33)
    options = ("--max-memory", "4G", "--dataset", f"big={tmp_path}/big.safetensors:x")
    with server_pool.process(*options) as (where, _), rpc.connect(where) as session:
        assert session.dataset("big").shape == (2, 2**30)
        assert session.send(torch.ones(3)).publish().tolist() == [1, 1, 1]
