"""A site of the web with pages of many kinds."""

import gzip
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

ARTICLE = "".join(
    f"<p>Paragraph {number} of the article tells of cats, and of nothing else at all.</p>"
    for number in range(12)
)
PAGE = (
    "<!doctype html><html><head><title>On  cats\n</title><style>.a{}</style></head><body>"
    "<nav><a href='/'>Home</a><a href='/b'>About</a></nav>"
    f"<article><h1>Cats</h1>{ARTICLE}<p>See <a href='/more'>more of them</a>.</p></article>"
    "<script>alert('no')</script><footer>Imprint</footer></body></html>"
)
_HTML = "text/html; charset=utf-8"
PAGES: dict[str, tuple[int, str, bytes]] = {
    "/page": (200, _HTML, PAGE.encode()),
    "/short": (200, _HTML, b"<html><title>S</title><body><div>Few words.</div></body></html>"),
    "/latin": (200, "text/html; charset=latin-1", b"<html><body><p>Gr\xfc\xdfe</p></body></html>"),
    "/meta": (
        200,
        "text/html",
        b"<html><head><meta charset='iso-8859-1'></head><body><p>Gr\xfc\xdfe</p></body></html>",
    ),
    "/unnamed": (200, "", PAGE.encode()),
    "/plain": (200, "text/plain", "Grüße".encode()),
    "/json": (200, "application/json", b'{"a": 1}'),
    "/punycode": (200, "text/plain; charset=punycode", b"words-"),
    "/odd-charset": (200, "text/plain; charset=base64", b"words"),
    "/empty": (200, _HTML, b""),
    "/picture": (200, "image/png", b"\x89PNG\0\0"),
    "/null": (200, "text/plain", b"a\0b"),
    "/long": (200, "text/plain", b'quote " ' * 200_000),
    "/huge": (200, "text/plain", b"much " * 2_000_000),
    "/gone": (404, _HTML, b"<html><body>secret-detail</body></html>"),
    "/busy": (429, _HTML, b""),
    "/broken": (500, _HTML, b""),
}


@dataclass
class WebSite:
    """`met` are the paths that were asked for."""

    port: int
    met: list[str] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: WebSite

    def do_GET(self) -> None:
        self.site.met.append(self.path)
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/to":
            self.say(b"", status=int(query.get("status", "302")), location=query["url"])
        elif parts.path == "/silent":
            self.site.let_go.wait(20)
            self.close_connection = True
        elif parts.path == "/bomb":
            self.say(gzip.compress(b"boom " * 10_000_000), kind="text/plain", encoding="gzip")
        else:
            status, kind, body = PAGES.get(parts.path, PAGES["/gone"])
            self.say(body, status=status, kind=kind)

    def say(
        self,
        body: bytes,
        *,
        status: int = 200,
        kind: str = "",
        location: str = "",
        encoding: str = "",
    ) -> None:
        self.send_response(status)
        given = {"Content-Type": kind, "Location": location, "Content-Encoding": encoding}
        for name, value in given.items():
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who reads it may hang up."""


class RunningWebSite:
    """The site while the block lasts."""

    def __enter__(self) -> WebSite:
        handler = type("Handler", (_Handler,), {})
        self._server = _Server(("127.0.0.1", 0), handler)
        site = WebSite(int(self._server.server_address[1]))
        handler.site = site  # type: ignore[attr-defined]  # The class is made here.
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self._site = site
        return site

    def __exit__(self, *_: object) -> None:
        self._site.let_go.set()
        self._server.shutdown()
        self._server.server_close()
