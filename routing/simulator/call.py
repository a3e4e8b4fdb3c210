"""One chat request together with everything needed to answer it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from routing.simulator import render
from routing.simulator.exchange import Exchange
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
    exchange: Exchange
    persona: str
    body: dict[str, Any]
    identity: Identity
    options: Options
    override: dict[str, Any] = field(default_factory=dict)

    @property
    def stream(self) -> bool:
        return self.body.get("stream") is True

    @property
    def include_usage(self) -> bool:
        settings = self.body.get("stream_options")
        return isinstance(settings, dict) and settings.get("include_usage") is True

    def answer(self, **override: Any) -> Answer:
        return compose(self.body, self.identity, {**override, **self.override})

    def document(self, **override: Any) -> dict[str, Any]:
        """The answer as a `chat.completion` object."""
        return render.completion(self.answer(**override))

    def json_body(self, **override: Any) -> bytes:
        return render.encoded(render.dumps(self.document(**override)))

    def events(self, **override: Any) -> render.Stream:
        """The answer as server-sent events."""
        return render.stream(self.answer(**override), include_usage=self.include_usage)

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


def error_body(
    message: str, kind: str, *, code: str | int | None = None, param: str | None = None
) -> bytes:
    """An error as the chat-completions format writes it."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return render.encoded(render.dumps({"error": error}))
