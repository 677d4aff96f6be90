"""Measure the throughput of the remote tensor's transports: ``python scripts/bench_wire.py [--seconds S]``.

Each transport is compared with a plain stream.

Operators of 210 bytes are sent in batches of 64 to a server that decodes, checks and runs them with a kernel that does
nothing. Tensors of 1 MiB are sent to a server that keeps the latest one. The plain ("bare") stream uses the same
library (asyncio with ssl, or gRPC) in another process, which receives messages of the same lengths, ignores their
contents and answers each. Everything is measured alternately, and the best of several rounds counts. The last line
compares TLS with gRPC. Certificates are made for each run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import trustme

from torchnp.core.schema import load
from torchnp.rpc import wire
from torchnp.rpc.client.transports.grpc_transport import Grpc, credentials
from torchnp.rpc.client.transports.reconnect import ReconnectingTransport
from torchnp.rpc.client.transports.transport import Tcp, tls_context

OPS = 64
NAME = "aten::sum.dim_IntList"
ONE = np.ones(())
PADDING = wire.Ints([1 << 40] * 20)  # makes an operator of 210 bytes


def nothing(self, dim=None, keepdim=False, *, dtype=None):
    return ONE.copy()


nothing.schema = load()[NAME]


# ---------------------------------------------------------------- servers


def bare_tls(cert: str, key: str) -> None:
    """Serve a plain TLS stream: read messages that are preceded by their lengths, and answer each."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                writer.write(wire.lengthened(b"taken"))

    async def main() -> None:
        server = await asyncio.start_server(client, "127.0.0.1", 0, ssl=context)
        print(f'"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"', flush=True)
        await server.serve_forever()

    asyncio.run(main())


def bare_grpc(cert: str, key: str) -> None:
    import grpc

    async def session(_: object, context: grpc.aio.ServicerContext) -> None:
        while await context.read() is not grpc.aio.EOF:
            await context.write(b"taken")

    async def main() -> None:
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", wire.MAX_MESSAGE)])
        pair = [(Path(key).read_bytes(), Path(cert).read_bytes())]
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(pair))
        method = grpc.stream_stream_rpc_method_handler(session)
        handler = grpc.method_handlers_generic_handler(wire.GRPC_SERVICE, {"Session": method})
        server.add_generic_rpc_handlers((handler,))
        await server.start()
        print(f'"grpcs://127.0.0.1:{port}"', flush=True)
        await server.wait_for_termination()

    asyncio.run(main())


def full(cert: str, key: str, table: dict | None, grpc: bool = False) -> None:
    from torchnp.rpc import serve

    serve(table=table, tls_cert=cert, tls_key=key, grpc=grpc)


SERVERS = {
    "bare-tls": bare_tls,
    "bare-grpc": bare_grpc,
    "tls": lambda cert, key: full(cert, key, {NAME: nothing}),
    "grpc": lambda cert, key: full(cert, key, {NAME: nothing}, grpc=True),
    "all-tls": lambda cert, key: full(cert, key, None),  # uses torchnp's own table
}


@contextlib.contextmanager
def certificates():
    """Yield the paths of a certificate for 127.0.0.1, of its key, and of the CA's certificate."""
    with tempfile.TemporaryDirectory() as where:
        authority, cert, key, ca = trustme.CA(), *(Path(where) / name for name in ("cert", "key", "ca"))
        issued = authority.issue_cert("127.0.0.1")
        issued.cert_chain_pems[0].write_to_path(cert)
        issued.private_key_pem.write_to_path(key)
        authority.cert_pem.write_to_path(ca)
        yield cert, key, ca


@contextlib.contextmanager
def server(kind: str, cert: Path, key: Path):
    """Start a server in another process; yield its port."""
    command = [sys.executable, __file__, "--serve", kind, str(cert), str(key)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield int(process.stdout.readline().split('"')[1].rpartition(":")[2])
        finally:
            process.terminate()


# ---------------------------------------------------------------- clients


def batch_of(seq: int, first: int, index: int = 0, args: list = [wire.Handle(0), PADDING], count: int = 1) -> list:  # noqa: B006
    """Return the frames of `OPS` operators, from a sequence number and an id on, and of their results' deletion."""
    batch = [wire.Op(index, first + i * count, count, args, {}, []) for i in range(OPS)]
    ops = wire.Ops(seq, batch)
    return [ops, wire.Del(seq + OPS, [(first, OPS - 1)])] if count else [ops]


class Bare:
    """Client of a plain stream, which sends messages ahead of the answers as far as the window allows."""

    def __init__(self, stream: Tcp | Grpc) -> None:
        self.stream, self.waiting = stream, 0

    def send(self, message: bytes, ahead: int) -> None:
        self.stream.send([message])
        self.waiting += len(message)
        while self.waiting > ahead:
            self.take(len(message))
        while self.waiting and self.stream.receive(0.0) is not None:
            self.waiting -= len(message)

    def take(self, size: int) -> None:
        self.stream.receive(60.0)
        self.waiting -= size

    def rate(self, message: bytes, seconds: float, ahead: int = wire.WINDOW) -> float:
        """Return the answered messages per second; at most ``ahead`` bytes are sent ahead of the answers."""
        n, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            self.send(message, ahead)
            n += 1
        while self.waiting:
            self.take(len(message))
        return n / (time.perf_counter() - start)


class Full:
    """Client that sends a session's frames, which it encodes when it sends them."""

    def __init__(self, link: ReconnectingTransport) -> None:
        agreed = wire.Agreement({NAME: nothing})
        self.link, self.seq, self.id = link, 0, 1
        hello = wire.Hello(wire.VERSION, agreed.digest, len(agreed.names), "bench", "")
        assert type(wire.decode_reply(link.greet(hello, 30.0))) is wire.Welcome
        one = memoryview(np.ones(1, np.float32).tobytes())
        self.send([wire.Data(0, 0, "float32", [1], [0], 0, one)], 1)
        self.requests = 0
        self.sync()

    def send(self, frames: list[object], count: int) -> None:
        self.link.send([wire.encode(frame) for frame in frames])
        self.seq += count
        while self.link.receive(0.0) is not None:
            pass

    def sync(self) -> None:
        self.requests += 1
        self.link.send([wire.encode(wire.Sync(self.requests, self.seq))])
        while True:
            reply = wire.decode_reply(self.link.receive(60.0))
            assert type(reply) is not wire.Err, reply
            if type(reply) is wire.Status:
                return

    def ops(self) -> None:
        self.send(batch_of(self.seq, self.id), OPS)
        self.id += OPS

    def tensor(self, raw: memoryview) -> None:
        data = wire.Data(self.seq, self.id, "uint8", [len(raw)], [0], 0, raw)
        self.send([data, wire.Del(self.seq + 1, [(self.id, self.id)])], 1)
        self.id += 1

    def rate(self, step, seconds: float) -> float:
        n, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            step()
            n += 1
        self.sync()
        return n / (time.perf_counter() - start)


class Pair:
    """A session over a transport, and a plain stream of the same library, each with its own server."""

    def __init__(self, kind: str, files: tuple[Path, Path, Path], stack: contextlib.ExitStack) -> None:
        cert, key, ca = files
        self.name = kind

        def dial(kind: str) -> Tcp | Grpc:
            port = stack.enter_context(server(kind, cert, key))
            if self.name == "tls":
                return Tcp("127.0.0.1", port, 30.0, tls_context(ca, None, None))
            return Grpc("127.0.0.1", port, credentials(ca, None, None))

        stream = dial(kind)
        self.session, self.bare = Full(ReconnectingTransport(lambda _: stream, 30.0)), Bare(dial(f"bare-{kind}"))
        self.rates: list[list[float]] = [[], [], [], [], [], []]

    def round(self, seconds: float) -> None:
        """Measure each rate once: operators, tensors and answers per second, each before the plain stream's rate."""
        session, bare = self.session, self.bare
        batch = bytes(OPS * len(wire.encode(wire.Op(0, 1 << 20, 1, [wire.Handle(0), PADDING], {}, []))))
        raw = memoryview(bytes(wire.CHUNK))
        for rates, measure, amount in zip(
            self.rates,
            (
                lambda: session.rate(session.ops, seconds),
                lambda: bare.rate(batch, seconds),
                lambda: session.rate(lambda: session.tensor(raw), seconds),
                lambda: bare.rate(bytes(raw), seconds),
                lambda: session.rate(session.sync, seconds / 2),
                lambda: bare.rate(b"short", seconds / 2, ahead=0),
            ),
            (OPS, OPS, wire.CHUNK / 1e6, wire.CHUNK / 1e6, 1e-6, 1e-6),
        ):
            rates.append(measure() * amount)

    def __str__(self) -> str:
        a, b, c, d, e, f = map(max, self.rates)
        return f"{self.name:<8} {a:14,.0f} {b:10,.0f} {a / b:6.2f} {c:9,.0f} {d:10,.0f} {c / d:6.2f} {1 / e:9.0f} {1 / f:6.0f}"

    def close(self) -> None:
        self.session.link.interrupt()
        self.session.link.close()
        self.bare.stream.leave(b"over")
        self.bare.stream.close()


def compared(one: Pair, other: Pair) -> str:
    """Return a line that says how many times as fast ``one`` is as ``other``.

    The ratios are medians over rounds, in which both are measured one after the other.
    """
    ratios = [[a / b for a, b in zip(*rates)] for rates in zip(one.rates, other.rates)]
    ops, bare_ops, tensors, bare_tensors, syncs, bare_syncs = map(statistics.median, ratios)
    return (
        f"{one.name} / {other.name:<8} {ops:7.2f} {bare_ops:10.2f}        {tensors:9.2f} {bare_tensors:10.2f}        "
        f"{1 / syncs:9.2f} {1 / bare_syncs:6.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", nargs=3, metavar=("KIND", "CERT", "KEY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        kind, cert, key = options.serve
        return SERVERS[kind](cert, key)
    print("            operators/s       bare  ratio      MB/s       bare  ratio   sync us   bare")
    with contextlib.ExitStack() as stack:
        files = stack.enter_context(certificates())
        pairs = [Pair(kind, files, stack) for kind in ("tls", "grpc")]
        for _ in range(options.rounds):
            for pair in pairs:
                pair.round(options.seconds)
        print(*pairs, compared(*pairs), sep="\n", flush=True)
        for pair in pairs:
            pair.close()
    return None


if __name__ == "__main__":
    main()
