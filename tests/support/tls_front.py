"""TLS in front of servers that cannot do it; who begins in the clear, as they do among themselves,
is passed on."""

import asyncio
import socket
import ssl
from collections import Counter
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Self

from tests.support.postgres import free_port

_HANDSHAKE = b"\x16"


class TlsFront:
    """`ports` are those in front by the servers' own; `encrypted` counts connections by TLS."""

    def __init__(self, certificate: Path, servers: list[int]) -> None:
        self.ports = {server: free_port() for server in servers}
        self.encrypted: Counter[int] = Counter()
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._jobs = set[asyncio.Task[None]]()

    def __enter__(self) -> Self:
        self._thread.start()
        for server, port in self.ports.items():
            listener = socket.create_server(("127.0.0.1", port))
            listener.setblocking(False)
            asyncio.run_coroutine_threadsafe(self._accept(listener, server), self._loop)
        return self

    def __exit__(self, *_: object) -> None:
        async def end() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _accept(self, listener: socket.socket, server: int) -> None:
        with listener:
            while True:
                client, _ = await self._loop.sock_accept(listener)
                job = self._loop.create_task(self._serve(client, server))
                self._jobs.add(job)
                job.add_done_callback(self._jobs.discard)
                # Also where it ended before it began.
                job.add_done_callback(partial(_close, client))

    async def _serve(self, client: socket.socket, server: int) -> None:
        writers: list[asyncio.StreamWriter] = []
        try:
            is_tls = await self._read_first(client) == _HANDSHAKE
            self.encrypted[server] += is_tls
            reader = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(reader)
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: protocol, client, ssl=self._tls if is_tls else None
            )
            writers.append(asyncio.StreamWriter(transport, protocol, reader, self._loop))
            answers, writer = await asyncio.open_connection("127.0.0.1", server)
            writers.append(writer)
            ways = [self._pass_on(reader, writer), self._pass_on(answers, writers[0])]
            jobs = [self._loop.create_task(way) for way in ways]
            await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            return
        finally:
            for each in writers:
                each.transport.abort()

    async def _read_first(self, client: socket.socket) -> bytes:
        """The first byte, which stays where it is."""
        readable = asyncio.Event()
        self._loop.add_reader(client, readable.set)
        await readable.wait()
        self._loop.remove_reader(client)
        return client.recv(1, socket.MSG_PEEK)

    async def _pass_on(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        try:
            while piece := await source.read(1 << 16):
                to.write(piece)
                await to.drain()
        except OSError:
            return


def _close(client: socket.socket, _: "asyncio.Task[None]") -> None:
    client.close()
