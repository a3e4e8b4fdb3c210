"""One call for decisions: what goes to the endpoint, and what its answer says of each part."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from routing.decisions import logprobs, native, schema
from routing.decisions.question import Judgement, NoAnswer
from routing.entities.entries import EndpointEntry
from routing.entities.exchange import Answer, Prompt, Terms, WireRequest
from routing.formats.chat.format import CHAT
from routing.formats.chat.forward import build_forwarded_body
from routing.formats.chat.request import ChatRequest
from routing.formats.reasoning import resolve_reasoning
from routing.serving.deciding.agenda import Agenda, Errand, Place
from routing.upstreams.failures import UpstreamFailure, from_error_object, malformed
from routing.upstreams.wires import wire_of

_FORMAT: Final = "response_format"


class Told(NamedTuple):
    """What came back: the parts that were judged, and why others were not."""

    judged: dict[Place, Judgement]
    failure: UpstreamFailure | None
    answer: Answer


def request_of(
    errand: Errand, agenda: Agenda, chat: ChatRequest, endpoint: EndpointEntry, terms: Terms
) -> WireRequest:
    """What the endpoint is sent."""
    wire = wire_of(endpoint.provider.kind)
    if endpoint.decides == "native":
        asked = {name: native.serialize_question(part) for name, part in errand.parts.items()}
        body = {"state": agenda.state, "questions": asked}
        return wire.request(Prompt(body, None, False, None, None, None, False), terms)
    [part] = errand.parts.values()
    return wire.request(_prompt(agenda.chat_body(part, endpoint), chat, endpoint, terms), terms)


def _prompt(
    body: dict[str, Any], chat: ChatRequest, endpoint: EndpointEntry, terms: Terms
) -> Prompt:
    most = body["max_tokens"]
    reasoning = resolve_reasoning(body.get("reasoning"), effort=None, include=None)
    if endpoint.provider.kind == CHAT.wire:
        asked = replace(chat, body=body, max_output_tokens=most, reasoning=reasoning)
        body = build_forwarded_body(
            asked,
            upstream_model=terms.upstream_model,
            # Who has JSON schemas is told of them, by whichever word the catalogue says so.
            supported=terms.supported | {_FORMAT} if _FORMAT in body else terms.supported,
            user_hash=terms.user_hash,
            stream_usage=False,
            max_tokens_cap=None,
        )
    effort = reasoning.effort if reasoning else None
    return Prompt(body, None, False, most, effort, None, False)


def told(errand: Errand, endpoint: EndpointEntry, raw: bytes, content_type: str) -> Told:
    """What a whole answer says. Raises `UpstreamFailure` where there is none in it."""
    answer = wire_of(endpoint.provider.kind).answer(raw, content_type)
    if answer.error is not None:
        raise from_error_object(answer.error)
    judged: dict[Place, Judgement] = {}
    failure: UpstreamFailure | None = None
    for place, (name, part) in zip(errand.places, errand.parts.items(), strict=True):
        try:
            judged[place] = _READERS[endpoint.decides or ""](part, answer, name)
        except NoAnswer as why:
            failure = failure or malformed(str(why))
    return Told(judged, failure, answer)


def _native(part: Any, answer: Answer, name: str) -> Judgement:
    said: Mapping[str, Any] = answer.native.value["answers"] if answer.native else {}
    return native.read_judgement(part, said.get(name))


def _by_logprobs(part: Any, answer: Answer, name: str) -> Judgement:
    return logprobs.read_judgement(part, answer.logprobs)


def _by_schema(part: Any, answer: Answer, name: str) -> Judgement:
    content = answer.message.get("content")
    if not isinstance(content, str):
        raise NoAnswer("the answer has no text")
    return schema.read_judgement(part, content)


_READERS: Final = {"native": _native, "logprobs": _by_logprobs, "schema": _by_schema}
