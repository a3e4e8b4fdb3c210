"""The Pod that has an intern's disk, as the driver asks it: see `inside.DiskServer`."""

from http.client import HTTPConnection
from typing import Any, BinaryIO, Final

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import loads
from interns.runtime.driver import AgentAddress, ArchiveFailed

SILENCE_S: Final = 60.0


class DiskReader:
    """A Pod that has an intern's disk."""

    def __init__(self, address: AgentAddress, token: str) -> None:
        host = address.host.strip("[]")
        self._connection = HTTPConnection(host, address.port, timeout=SILENCE_S)
        self._headers = {"Authorization": f"Bearer {token}"}

    def __enter__(self) -> "DiskReader":
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, content: BinaryIO | None = None) -> Any:
        """The answer. Raises `ArchiveFailed`."""
        headers = self._headers
        if content is not None:
            length = content.seek(0, 2)
            content.seek(0)
            headers = {**headers, "Content-Length": str(length)}
        self._connection.request(method, path, body=content, headers=headers)
        reply = self._connection.getresponse()
        if reply.status != 200:
            raise ArchiveFailed(reply.read(1000).decode("utf-8", "replace"))
        return reply

    def read_files(self, method: str, path: str, content: BinaryIO | None = None) -> int:
        """How many files it says there were. Raises `ArchiveFailed`."""
        try:
            files = int(loads(self.ask(method, path, content).read())["files"])
        except (MalformedJson, LookupError, TypeError, ValueError) as error:
            raise ArchiveFailed("the disk's Pod does not say how many files there were") from error
        if files < 0:
            raise ArchiveFailed("the disk was not read whole")
        return files
