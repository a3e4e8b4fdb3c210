"""A site of the web with pages of many kinds."""

import gzip
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from tests.support.local_site import LocalSite, Running, SiteHandler
from tests.support.pdfs import pdf

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
    "/pdf": (200, "application/pdf", pdf("On paper", "and its back")),
    "/download": (200, "application/octet-stream", pdf("On paper", "and its back")),
    "/scan": (200, "application/pdf", pdf("")),
    "/locked": (200, "application/pdf", pdf("Secret", password="x")),
    "/no-pdf": (200, "application/pdf", PAGE.encode()),
    "/gone": (404, _HTML, b"<html><body>secret-detail</body></html>"),
    "/busy": (429, _HTML, b""),
    "/broken": (500, _HTML, b""),
}


@dataclass
class WebSite(LocalSite):
    """`met` are the paths that were asked for."""

    met: list[str] = field(default_factory=list)


class _Handler(SiteHandler):
    site: WebSite

    def do_GET(self) -> None:
        self.site.met.append(self.path)
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/to":
            self.answer(b"", status=int(query.get("status", "302")), Location=query["url"])
        elif parts.path == "/silent":
            self.silence()
        elif parts.path == "/bomb":
            bomb = gzip.compress(b"boom " * 10_000_000)
            self.answer(bomb, Content_Type="text/plain", Content_Encoding="gzip")
        else:
            status, kind, body = PAGES.get(parts.path, PAGES["/gone"])
            self.answer(body, status=status, Content_Type=kind)


def serve_web_site() -> Running[WebSite]:
    return Running(WebSite, _Handler)
