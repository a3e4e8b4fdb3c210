"""A server that keeps objects as S3 does, as far as archives need it."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest


def set_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the client does not begin without."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


class FakeS3:
    """`objects` by bucket and key; `refuse` makes every request fail."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.refuse = False

    def __enter__(self) -> "FakeS3":
        handler = type("Handler", (_Handler,), {"kept": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    kept: FakeS3

    def do_PUT(self) -> None:
        body = self._body()
        if not self._refused():
            self.kept.objects[self._name()] = body
            self._answer(200, b"")

    def do_GET(self) -> None:
        if not self._refused():
            found = self.kept.objects.get(self._name())
            self._answer(404 if found is None else 200, found or b"")

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        if not self._refused():
            self.kept.objects.pop(self._name(), None)
            self._answer(204, b"")

    def _name(self) -> str:
        return unquote(urlsplit(self.path).path.lstrip("/"))

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Content-Encoding", ""):
            return self.rfile.read(int(self.headers["Content-Length"]))
        # The client signs or sums up its chunks: `size;more`, the bytes, and trailers in the end.
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def _refused(self) -> bool:
        if self.kept.refuse:
            self._answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        return self.kept.refuse

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"x"')
        self.send_header("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass
