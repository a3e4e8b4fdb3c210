"""A site that says back what it was told, in the ways in which sites do."""

import base64
import gzip
import html
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.support.local_site import LocalSite, Running, SiteHandler


@dataclass
class Met:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Site(LocalSite):
    """`url` has the address, `named_url` another name of the same site."""

    met: list[Met] = field(default_factory=list)

    @property
    def named_url(self) -> str:
        return f"http://localhost:{self.port}"


class _Handler(SiteHandler):
    site: Site

    def handle_one(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        headers = {name.lower(): value for name, value in self.headers.items()}
        met = Met(self.command, self.path, headers, body)
        self.site.met.append(met)
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        ROUTES.get(parts.path, _echo)(self, met, query)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = handle_one


def _echo(handler: _Handler, met: Met, query: dict[str, str]) -> None:
    told = {"path": met.path, "headers": met.headers, "body": met.body.decode("latin-1")}
    handler.answer(json.dumps(told).encode(), Content_Type="application/json")


def _answer_spellings(handler: _Handler, met: Met, query: dict[str, str]) -> None:
    """What the request's header `X-Say` holds, in every spelling, in body and head."""
    said = met.headers["x-say"]
    lines = [
        *(said, json.dumps(said), quote(said, safe=""), quote(said, safe="").lower(), quote(said)),
        *(html.escape(said), said.encode().hex(), base64.b64encode(said.encode()).decode()),
        base64.b64encode(f"user:{said}".encode()).decode(),
        base64.urlsafe_b64encode(f"x{said}".encode()).decode(),
    ]
    body = "\n".join(lines).encode() + said.encode("utf-16-le")
    handler.answer(body, Content_Type="text/plain; charset=latin-1", X_Said=said, Set_Cookie=said)


def _redirect(handler: _Handler, met: Met, query: dict[str, str]) -> None:
    handler.answer(b"", status=int(query.get("status", "302")), Location=query["to"])


def _begin(handler: _Handler, **headers: str) -> None:
    """An answer whose connection closes behind it."""
    handler.send_response(200)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.close_connection = True


def _answer_in_drips(handler: _Handler, met: Met, query: dict[str, str]) -> None:
    """The body back, a byte at a time."""
    _begin(handler, Transfer_Encoding="chunked")
    for byte in met.body:
        handler.wfile.write(b"1\r\n" + bytes([byte]) + b"\r\n")
        handler.wfile.flush()
    handler.wfile.write(b"0\r\n\r\n")


def _answer_zipped(handler: _Handler, met: Met, query: dict[str, str]) -> None:
    handler.answer(gzip.compress(met.body), Content_Encoding="gzip", Content_Type="text/plain")


def _answer_bomb(handler: _Handler, met: Met, query: dict[str, str]) -> None:
    handler.answer(gzip.compress(bytes(50_000_000)), Content_Encoding="gzip")


def _answer_large(handler: _Handler, met: Met, query: dict[str, str]) -> None:
    handler.answer(b"x" * int(query["bytes"]) + met.body, Content_Type="text/plain")


def _answer_bytes(handler: _Handler, met: Met, query: dict[str, str]) -> None:
    handler.answer(b"\x00\xff" + met.body, Content_Type="application/octet-stream")


def _answer_endlessly(handler: _Handler, met: Met, query: dict[str, str]) -> None:
    _begin(handler, Content_Type="text/plain")
    try:
        while not handler.site.let_go.is_set():
            handler.wfile.write(b"z" * 400_000)
            handler.site.let_go.wait(0.05)
    except OSError:
        pass


def _answer_slowly(handler: _Handler, met: Met, query: dict[str, str]) -> None:
    """Some words, then what stands in the query, then nothing more."""
    _begin(handler)
    handler.wfile.write(b"word " * 100 + met.path.partition("?")[2].encode())
    handler.wfile.flush()
    handler.site.let_go.wait(3)


def _answer_cut_off(handler: _Handler, met: Met, query: dict[str, str]) -> None:
    _begin(handler, Content_Length="100")
    handler.wfile.write(b"short")


def _answer_unquoted(handler: _Handler, met: Met, query: dict[str, str]) -> None:
    handler.answer(unquote(met.path).encode(), Content_Type="text/plain")


ROUTES: dict[str, Callable[[_Handler, Met, dict[str, str]], None]] = {
    "/spelled": _answer_spellings,
    "/redirect": _redirect,
    "/drip": _answer_in_drips,
    "/zipped": _answer_zipped,
    "/bomb": _answer_bomb,
    "/large": _answer_large,
    "/bytes": _answer_bytes,
    "/silent": lambda handler, *_: handler.silence(),
    "/endless": _answer_endlessly,
    "/cut": _answer_cut_off,
    "/slowly": _answer_slowly,
    "/unquoted": _answer_unquoted,
}


def serve_site(tls: ssl.SSLContext | None = None) -> Running[Site]:
    return Running(Site, _Handler, tls)
