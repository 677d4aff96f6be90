"""Messages over a byte stream: they arrive whole however the stream is cut, and waiting data is bounded. No torch."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl

import pytest
import trustme

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.wire.framing import BUFFERED, ByteStream

LENGTHS = (1, 9, 300, BUFFERED - 4, BUFFERED - 3, BUFFERED, 3 * BUFFERED + 17, wire.MAX_MESSAGE)


def talk(conversation):
    """Run a conversation between a stream and the other end of its socket."""

    async def main():
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        _, stream = await asyncio.get_running_loop().connect_accepted_socket(ByteStream, ours)
        with theirs:
            try:
                async with asyncio.timeout(60):
                    await conversation(stream, theirs)
            finally:
                stream.transport.close()

    asyncio.run(main())


def messages(seed: int) -> list[bytes]:
    draw = random.Random(seed)
    return [draw.randbytes(draw.choice(LENGTHS)) for _ in range(40)]


@pytest.mark.parametrize("seed", range(4))
def test_messages_arrive_whole_however_they_are_cut(seed):
    draw, sent = random.Random(seed), messages(seed)
    raw = memoryview(b"".join(map(wire.lengthened, sent)))

    async def conversation(stream, theirs):
        async def speak():
            start = 0
            while start < len(raw):
                end = start + draw.choice((1, 3, 100, BUFFERED, 1 << 20))
                await asyncio.get_running_loop().sock_sendall(theirs, raw[start:end])
                start = end
                if draw.random() < 0.3:
                    await asyncio.sleep(0)
            theirs.shutdown(socket.SHUT_WR)

        speaking = asyncio.ensure_future(speak())
        for message in sent:
            assert await stream.read() == message
        assert await stream.read() is None
        await speaking

    talk(conversation)


def test_messages_arrive_whole_over_tls():
    sent, authority = messages(9), trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(client)

    async def main():
        ours, theirs = socket.socketpair()
        accepted = asyncio.get_running_loop().connect_accepted_socket(ByteStream, ours, ssl=server)
        dialled = asyncio.open_connection(sock=theirs, ssl=client, server_hostname="localhost")
        (_, stream), (_, writer) = await asyncio.gather(accepted, dialled)
        for message in sent:
            writer.write(wire.lengthened(message))
        for i, message in enumerate(sent):
            if i % 4 == 0:
                await asyncio.sleep(0.01)  # the buffer fills up meanwhile
            assert await stream.read() == message
        writer.close()
        assert await stream.read() is None

    asyncio.run(asyncio.wait_for(main(), 60))


def test_the_last_message_is_read_although_the_end_came_with_it():
    async def conversation(stream, theirs):
        theirs.send(wire.lengthened(b"first") + wire.lengthened(b"last"))
        theirs.close()
        await asyncio.sleep(0.05)
        assert [await stream.read(), await stream.read(), await stream.read()] == [b"first", b"last", None]

    talk(conversation)


def test_a_message_that_is_cut_off_is_none():
    async def conversation(stream, theirs):
        theirs.send(wire.lengthened(bytes(2 * BUFFERED))[:-1])
        theirs.close()
        assert await stream.read() is None

    talk(conversation)


def test_a_long_message_is_refused_by_its_length():
    async def conversation(stream, theirs):
        theirs.send(wire.lengthened(bytes(100)) + (101).to_bytes(4, "big"))
        assert await stream.read(100) == bytes(100)
        with pytest.raises(ProtocolError, match="a frame of 101 bytes is longer than the 100"):
            await stream.read(100)

    talk(conversation)


def test_who_is_not_read_is_not_listened_to():
    async def conversation(stream, theirs):
        taken = 0
        for _ in range(200):
            await asyncio.sleep(0.001)
            with contextlib.suppress(BlockingIOError):
                taken += theirs.send(bytes(1 << 20))
        assert taken < 1 << 22  # most of it is in the system's own buffers
        assert not stream.transport.is_reading()

    talk(conversation)


def test_what_is_written_arrives_and_waits_for_who_does_not_read():
    sent = messages(7)

    async def conversation(stream, theirs):
        writing = asyncio.ensure_future(stream.write(sent))
        await asyncio.sleep(0.05)
        assert not writing.done()
        expected, found = b"".join(map(wire.lengthened, sent)), bytearray()
        while len(found) < len(expected):
            found += await asyncio.get_running_loop().sock_recv(theirs, 1 << 20)
        assert found == expected
        await writing
        theirs.close()
        with pytest.raises(OSError):
            for _ in range(10):
                await stream.write(sent)

    talk(conversation)


def test_messages_go_together_or_without_a_copy():
    messages = [b"a", b"", bytes(wire.LONG), b"bc", b"d", bytes(wire.LONG + 1), bytes(wire.LONG - 1)]
    parts = list(wire.gathered(messages))
    assert b"".join(parts) == b"".join(map(wire.lengthened, messages))
    assert len(parts) == 5 and parts[1] is messages[2] and parts[3] is messages[5]
