"""A server that keeps objects as S3 does, as far as archives need it."""

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.local_site import LocalSite, Running, SiteHandler


def set_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the client does not begin without."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


@dataclass
class ObjectStore(LocalSite):
    """`objects` by bucket and key; `refuse` makes every request fail."""

    objects: dict[str, bytes] = field(default_factory=dict)
    refuse: bool = False


class _Handler(SiteHandler):
    protocol_version = "HTTP/1.0"
    site: ObjectStore

    def handle_one(self) -> None:
        name, body = unquote(urlsplit(self.path).path.lstrip("/")), self._read_body()
        objects = self.site.objects
        if self.site.refuse:
            self._say(403, b"<Error><Code>AccessDenied</Code></Error>")
        elif self.command == "PUT":
            objects[name] = body
            self._say(200)
        elif self.command == "DELETE":
            objects.pop(name, None)
            self._say(204)
        else:
            self._say(200 if name in objects else 404, objects.get(name, b""))

    do_PUT = do_GET = do_HEAD = do_DELETE = handle_one

    def _read_body(self) -> bytes:
        if "chunked" not in self.headers.get("Content-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        # The client signs or sums up its chunks: `size;more`, the bytes, and trailers in the end.
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def _say(self, status: int, body: bytes = b"") -> None:
        last = "Mon, 02 Jan 2006 15:04:05 GMT"
        self.answer(body, status=status, ETag='"x"', Last_Modified=last)


class FakeS3(Running[ObjectStore]):
    def __init__(self) -> None:
        super().__init__(ObjectStore, _Handler)
