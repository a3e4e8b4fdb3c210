"""Callers of one format over upstreams of another: what they ask, and what is looked at first."""

import json
import re
from dataclasses import dataclass
from typing import Final

from routing.simulator.answer import WORDS
from tests.load.targets import LoadFailed, Target, post_target
from tests.support.speakers import SPEAKERS, read_stream

# By wire kind: the path below an upstream's base URL, and the caller format that speaks it.
RESOURCES: Final = {"openai": "chat/completions", "anthropic": "messages", "responses": "responses"}
FORMATS: Final = {"openai": "chat", "anthropic": "messages", "responses": "responses"}
CREDENTIAL: Final = "upstream-credential"
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


def direct_target(wire: str, *, base_url: str, words: int) -> Target:
    """A stream straight from the upstream, or from the bare relay in front of it."""
    body = stream_request(FORMATS[wire], "bench", words)
    messages = {"anthropic-version": "2023-06-01", "x-api-key": CREDENTIAL}
    headers = messages if wire == "anthropic" else {}
    return Target(f"{base_url}/{RESOURCES[wire]}", CREDENTIAL, body, headers)


def check_governed_stream(caller: str, target: Target, words: int) -> None:
    """The gateway's stream keeps its format's rules, says every word and is priced. Raises
    `LoadFailed`."""
    try:
        said = SPEAKERS[caller].read_events(read_stream(post_target(target)))
    except (AssertionError, KeyError, ValueError) as error:
        raise LoadFailed(f"{target.url} streamed no answer: {error!r}") from error
    meant = " ".join(WORDS[number % len(WORDS)] for number in range(words))
    if said.failure or said.text != meant or not said.cost_nano:
        raise LoadFailed(f"{target.url}: {meant!r} arrived as {said.text!r}, {said.failure}")
