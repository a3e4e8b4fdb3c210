"""Callers of one format over upstreams of another: what they ask, and what is looked at first."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import requests

from routing.simulator.wire import WORDS
from tests.load.generators import LoadFailed, Target
from tests.load.streams import ENDS
from tests.support.speakers import SPEAKERS, read_stream

# By wire kind: the path below an upstream's base URL, and the caller format that speaks it.
RESOURCES: Final = {"openai": "chat/completions", "anthropic": "messages", "responses": "responses"}
FORMATS: Final = {"openai": "chat", "anthropic": "messages", "responses": "responses"}
CREDENTIAL: Final = "upstream-credential"
_MESSAGES_HEADERS: Final = {"anthropic-version": "2023-06-01", "x-api-key": CREDENTIAL}
_ANSWER_S: Final = 30.0
# The first byte of an answer in each format: the first text that is not empty.
CONTENT: Final = {
    "chat": re.compile(rb'"content": ?"[^"]'),
    "messages": re.compile(rb'"text_delta"'),
    "responses": re.compile(rb'"response\.output_text\.delta"'),
}


@dataclass(frozen=True)
class Crossing:
    """A caller format over an upstream's wire kind."""

    caller: str
    wire: str

    @property
    def name(self) -> str:
        return f"{self.caller}_over_{self.wire}"

    @property
    def told(self) -> str:
        return self.name.replace("_", " ")


# In pairs: the two that stand on either side of one interval of the bare relay.
BY_WIRE: Final = {
    "openai": (Crossing("messages", "openai"), Crossing("responses", "openai")),
    "anthropic": (Crossing("messages", "anthropic"), Crossing("chat", "anthropic")),
    "responses": (Crossing("responses", "responses"), Crossing("chat", "responses")),
}
CROSSINGS: Final = tuple(crossing for pair in BY_WIRE.values() for crossing in pair)


def stream_request(format: str, model: str, words: int) -> str:
    """Asks the simulated upstream for a stream of that many words, each an event; a body that an
    upstream takes as well as the gateway."""
    speaker = SPEAKERS[format]
    body = speaker.body(model, speaker.user(f"Please say {words} words."), cap=400, stream=True)
    if format == "chat":
        # What the gateway always asks for, and the spelling that every upstream knows.
        body |= {"stream_options": {"include_usage": True}}
        body["max_tokens"] = body.pop("max_completion_tokens")
    return json.dumps(body)


def governed_target(
    crossing: Crossing, *, root_url: str, key: str, model: str, words: int
) -> Target:
    """A stream from the gateway; `model` is served by an endpoint of the crossing's wire."""
    url = root_url + SPEAKERS[crossing.caller].path
    return Target(url, key, stream_request(crossing.caller, model, words))


def direct_target(wire: str, *, base_url: str, model: str, words: int) -> Target:
    """The same stream straight from the upstream, or from the bare relay in front of it."""
    url = f"{base_url}/{RESOURCES[wire]}"
    body = stream_request(FORMATS[wire], model, words)
    return Target(url, CREDENTIAL, body, upstream_headers(wire))


def upstream_headers(wire: str) -> Mapping[str, str]:
    """What an upstream of this kind wants beside `Authorization`."""
    return _MESSAGES_HEADERS if wire == "anthropic" else {}


def check_governed_stream(caller: str, target: Target, words: int) -> None:
    """The gateway's stream keeps its format's rules, says every word and is priced. Raises
    `LoadFailed`."""
    try:
        said = SPEAKERS[caller].heard_stream(read_stream(_asked(target)))
    except (AssertionError, KeyError, ValueError) as error:
        raise LoadFailed(f"{target.url} streamed no answer: {error!r}") from error
    meant = " ".join(WORDS[number % len(WORDS)] for number in range(words))
    if said.failure or said.text != meant or not said.cost_nano:
        raise LoadFailed(f"{target.url}: {meant!r} arrived as {said.text!r}, {said.failure}")


def check_direct_stream(wire: str, target: Target, words: int) -> None:
    """An upstream's or the relay's stream comes to its end, a text event for every word. Raises
    `LoadFailed`."""
    response, format = _asked(target), FORMATS[wire]
    events = len(CONTENT[format].findall(response.content))
    if response.status_code != 200 or events != words or ENDS[format][0] not in response.content:
        raise LoadFailed(f"{target.url} answered {response.status_code}, {events} words of {words}")


def _asked(target: Target) -> Any:
    headers = {**target.headers, "Authorization": f"Bearer {target.key}"}
    headers["Content-Type"] = "application/json"
    try:
        return requests.post(target.url, target.body, headers=headers, timeout=_ANSWER_S)
    except requests.RequestException as error:
        raise LoadFailed(f"no answer from {target.url}: {error}") from error
