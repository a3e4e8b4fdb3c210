"""One request together with everything needed to answer it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from routing.simulator.cache import NO_CACHE, CacheUse
from routing.simulator.encoding import dumps, encoded
from routing.simulator.exchange import JSON, Exchange, Headers
from routing.simulator.formats import CHAT, Complaint, Format, Speaker, Stream
from routing.simulator.wire import Answer, Identity, compose

ENVIRONMENT_PREFIX = "SIMULATOR_"


class Options:
    """Settings of a fault: the step's first, then the model name's, the URL's, the environment's.

    `sim/drip?interval_s=0.1` in the model name, `?interval_s=0.1` in the URL and
    `SIMULATOR_INTERVAL_S=0.1` in the environment mean the same.
    """

    def __init__(self, *sources: Mapping[str, Any]) -> None:
        self._sources = sources

    def text(self, name: str, default: str) -> str:
        for source in self._sources:
            if name in source:
                return str(source[name])
        return os.environ.get(ENVIRONMENT_PREFIX + name.upper(), default)

    def number(self, name: str, default: float) -> float:
        """A number; one that does not parse is the default."""
        try:
            return float(self.text(name, str(default)))
        except ValueError:
            return default


@dataclass(slots=True)
class Call:
    """`body` is the request as sent, `asked` the same in the chat shape, `judged` what a question
    is answered with where neither a fault nor the script (`override`) says otherwise."""

    exchange: Exchange
    persona: str
    format: Format
    body: dict[str, Any]
    asked: dict[str, Any]
    identity: Identity
    options: Options
    judged: dict[str, Any] = field(default_factory=dict)
    override: dict[str, Any] = field(default_factory=dict)
    cache: CacheUse = NO_CACHE

    @property
    def stream(self) -> bool:
        return self.body.get("stream") is True

    def answer(self, **override: Any) -> Answer:
        said = {**self.judged, **override, **self.override}
        return compose(self.asked, self.identity, said, self.cache)

    def document(self, **override: Any) -> dict[str, Any]:
        """The answer as one document of its format."""
        return self.format.document(self.body, self.answer(**override))

    def json_body(self, **override: Any) -> bytes:
        return encoded(dumps(self.document(**override)))

    def events(self, **override: Any) -> Stream:
        """The answer as server-sent events."""
        return self.format.stream(self.body, self.answer(**override))

    def speaker(self) -> Speaker:
        """For a stream that is said bit by bit."""
        return self.format.speaker(self.body, self.answer())

    def payload(self, **override: Any) -> bytes:
        """The whole body of the answer, in the form the request asked for."""
        if self.stream:
            return b"".join(self.events(**override).events())
        return self.json_body(**override)

    def reply(self, **override: Any) -> None:
        """Answer well, at once."""
        if self.stream:
            self.exchange.answer_stream(self.events(**override).events())
        else:
            self.exchange.answer(200, self.json_body(**override))

    def refuse(self, complaint: Complaint, headers: Headers = ()) -> None:
        """Answer with an HTTP error."""
        self.exchange.answer(complaint.status, error_body(complaint, self.format), JSON, headers)


def error_body(complaint: Complaint, format: Format = CHAT) -> bytes:
    return encoded(dumps(format.error(complaint)))
