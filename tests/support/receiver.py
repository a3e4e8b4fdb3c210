"""A receiver of destinations' requests: keeps what it gets, and answers what it is told to."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.support.local_site import LocalSite, Running, SiteHandler


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver(LocalSite):
    """`statuses` are answered one after the other, then `status`."""

    received: list[Received] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    status: int = 200
    location: str = ""


class _Handler(SiteHandler):
    site: Receiver

    def _take(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.site.received.append(Received(self.command, self.path, headers, body))
        status = self.site.statuses.pop(0) if self.site.statuses else self.site.status
        self.answer(b"{}", status=status, Location=self.site.location)

    do_POST = do_PUT = do_GET = _take


def serve_receiver() -> Running[Receiver]:
    return Running(Receiver, _Handler)


def read_attributes(span: Any) -> dict[str, Any]:
    """The attributes of an OTLP span by name."""
    return {each["key"]: _read_value(each["value"]) for each in span["attributes"]}


def _read_value(value: Any) -> Any:
    ((kind, held),) = value.items()
    if kind == "intValue":
        return int(held)
    return [_read_value(each) for each in held["values"]] if kind == "arrayValue" else held


def list_spans(payload: Any) -> list[Any]:
    """All spans of an OTLP body."""
    return [
        span
        for resource in payload["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
