"""Forward connections from the gateway's socket to the agent's socket in a container.

A container may replace its socket with anything. Standard library only: the supervisor runs it.
"""

import os
import socket
import stat
import threading
from contextlib import suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingMixIn, UnixStreamServer

PIECE_BYTES = 65_536
CONNECT_S = 2.0


class NoSocket(OSError):
    """There is no socket of that name in the folder."""


def connect_inside(folder: Path, name: str) -> socket.socket:
    """Connect to a socket in a folder that a stranger may write to. Raises `OSError`.

    What is opened is what is looked at, so that no link leads to another socket of the host.
    """
    inside = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inside)
    finally:
        os.close(inside)
    try:
        if not stat.S_ISSOCK(os.fstat(found).st_mode):
            raise NoSocket(name)
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(CONNECT_S)
        try:
            made.connect(f"/proc/self/fd/{found}")
        except OSError:
            made.close()
            raise
        made.settimeout(None)
        return made
    finally:
        os.close(found)


class SocketProxy(ThreadingMixIn, UnixStreamServer):
    """Passes each connection on to the socket `name` in `folder`."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        super().__init__("", _ProxiedConnection, bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that broke is nobody's news."""


class _ProxiedConnection(BaseRequestHandler):
    server: SocketProxy

    def handle(self) -> None:
        with connect_inside(self.server.folder, self.server.name) as inside:
            back = threading.Thread(target=_copy, args=(inside, self.request), daemon=True)
            back.start()
            _copy(self.request, inside)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Until the source ends; then the target hears no more."""
    with suppress(OSError):
        while piece := source.recv(PIECE_BYTES):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
