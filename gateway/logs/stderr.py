"""Writing many log lines at once, beside the event loop."""

import os
import select
import stat
from collections.abc import Iterator
from functools import partial
from typing import Final

from gateway.eventloop import run_in_thread

_STDERR: Final = 2


def write_lines(data: bytes) -> None:
    """Write whole lines to stderr in a native thread: the reader of a pipe may be slow.

    A file gets them in one write. Several processes share a pipe, so it gets as many lines at once
    as it never mixes with those of others.
    """
    run_in_thread(partial(write_to, _STDERR, data))


def write_to(descriptor: int, data: bytes) -> None:
    is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    for part in [data] if is_file else split_lines(data, select.PIPE_BUF):
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def split_lines(data: bytes, most: int) -> Iterator[bytes]:
    """Parts of at most this many bytes that end with a line, or one longer line."""
    start = 0
    while len(data) - start > most:
        end = data.rfind(b"\n", start, start + most) + 1
        # A longer line goes by itself.
        end = end or data.find(b"\n", start) + 1 or len(data)
        yield data[start:end]
        start = end
    if start < len(data):
        yield data[start:]
