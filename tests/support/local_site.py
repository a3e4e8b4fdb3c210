"""Small HTTP servers of tests, each in a thread of its own."""

import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Generic, TypeVar


@dataclass
class LocalSite:
    """Where it listens. `let_go` ends whatever it keeps callers waiting with."""

    port: int
    let_go: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class SiteHandler(BaseHTTPRequestHandler):
    """One call; `site` is what `Running` was given to run."""

    protocol_version = "HTTP/1.1"
    site: Any

    def answer(self, body: bytes, *, status: int = 200, **headers: str) -> None:
        """The whole answer; `Content_Type="…"` is a header, an empty one is left out."""
        self.send_response(status)
        for name, value in headers.items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def silence(self) -> None:
        """Say nothing until the site ends, or for long."""
        self.site.let_go.wait(20)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Callers may hang up."""


S = TypeVar("S", bound=LocalSite)


class Running(Generic[S]):
    """The site while the block lasts, over TLS where there is a context for it."""

    def __init__(
        self, site: type[S], handler: type[SiteHandler], tls: ssl.SSLContext | None = None
    ) -> None:
        self._kind, self._handler, self._tls = site, handler, tls

    def __enter__(self) -> S:
        handler: Any = type("Handler", (self._handler,), {})
        self._server = _Server(("127.0.0.1", 0), handler)
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        self._site = self._kind(int(self._server.server_address[1]))
        handler.site = self._site
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self._site

    def __exit__(self, *_: object) -> None:
        self._site.let_go.set()
        self._server.shutdown()
        self._server.server_close()
