"""Callers who dawdle, many of them in one thread, and what became of each."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass

PACE_S = 0.5


@dataclass(slots=True)
class Ended:
    """How a slow caller's connection ended: seconds it lasted, and everything it received."""

    lasted_s: float
    received: bytes

    @property
    def status(self) -> int:
        return int(self.received.split()[1]) if self.received.startswith(b"HTTP/1.1 ") else 0


def trickle_all(port: int, callers: list[tuple[bytes, bytes]], pace_s: float) -> list[Ended]:
    """Many of them, 500 more each second, each with what it sends at once and what byte by byte."""

    async def one(number: int, start: bytes, rest: bytes) -> Ended:
        await asyncio.sleep(number / 500)
        return await trickle(port, start, rest, pace_s=pace_s)

    async def all_() -> list[Ended]:
        return await asyncio.gather(*(one(n, *given) for n, given in enumerate(callers)))

    return asyncio.run(all_())


async def trickle(port: int, start: bytes, rest: bytes, *, pace_s: float = PACE_S) -> Ended:
    """Send `start` at once and `rest` byte by byte until the gateway ends it."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = asyncio.create_task(_to_end(reader))
    try:
        writer.write(start)
        for byte in rest:
            done, _ = await asyncio.wait({received}, timeout=pace_s)
            if done or writer.is_closing():
                break
            writer.write(bytes([byte]))
        everything = await received
        return Ended(time.monotonic() - began, everything)
    finally:
        writer.close()


async def _to_end(reader: asyncio.StreamReader) -> bytes:
    received = b""
    with suppress(ConnectionError):
        while piece := await reader.read(65_536):
            received += piece
    return received
