"""A tiny request to one endpoint, beside the books: nothing is charged, nothing is recorded."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from gateway.outbound.errors import OutboundError
from gateway.outbound.reply import Reply
from gateway.sealing import UnsealError
from routing.catalogue.models import Endpoint
from routing.entities.exchange import Prompt, Terms
from routing.upstreams.failures import RAW_CHARS_MAX, UpstreamFailure
from routing.upstreams.single_call import call_once
from routing.upstreams.wires import CHAT_KINDS, wire_of

TRIALS_MAX: Final = 10
TOTAL_S: Final = 15.0
OUTPUT_TOKENS_MAX: Final = 16
_SHOWN_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class EndpointTrial:
    """How one went. `status` is the upstream's own, None when no answer came; `said` are the first
    words of its answer, or its own words on why there is none. Latency is in milliseconds."""

    endpoint: Endpoint
    ok: bool
    status: int | None
    latency_ms: int | None
    said: str


def try_endpoints(endpoints: Sequence[Endpoint]) -> list[EndpointTrial]:
    """Ask up to ten endpoints at once; all of it takes about 15 s at most."""
    asked = [(endpoint, _credential(endpoint)) for endpoint in endpoints[:TRIALS_MAX]]
    if not connection.in_atomic_block:
        # The answers take their time; meanwhile the connection serves others.
        connection.close()
    with ThreadPoolExecutor(max_workers=TRIALS_MAX) as threads:
        return list(threads.map(lambda pair: _try(*pair), asked))


def _credential(endpoint: Endpoint) -> str | UnsealError | None:
    try:
        return endpoint.provider.credential()
    except UnsealError as error:
        return error


def _try(endpoint: Endpoint, credential: str | UnsealError | None) -> EndpointTrial:
    kind = endpoint.provider.kind
    if kind not in CHAT_KINDS:
        return _skip_endpoint(endpoint, f"Endpoints of kind {kind} cannot be tried from here.")
    if isinstance(credential, UnsealError):
        return _skip_endpoint(endpoint, f"The stored credential {credential}. Enter it again.")
    started = time.monotonic()
    status: int | None = None
    try:
        with _ask(endpoint, credential) as reply:
            status = reply.status
            ok, said = _judge_reply(kind, reply, reply.read_all())
    except (OutboundError, ValueError) as error:
        ok, said = False, f"No answer: {error}"
    latency_ms = round((time.monotonic() - started) * 1000)
    return EndpointTrial(endpoint, ok, status, latency_ms, _mask_credential(credential, said))


def _skip_endpoint(endpoint: Endpoint, why: str) -> EndpointTrial:
    return EndpointTrial(endpoint, ok=False, status=None, latency_ms=None, said=why)


def _ask(endpoint: Endpoint, credential: str | None) -> Reply:
    prompt = Prompt(_body(endpoint), None, False, OUTPUT_TOKENS_MAX, None, None, False)
    takes = frozenset(endpoint.supported_parameters)
    terms = Terms(endpoint.upstream_model, takes, None, credential, None, OUTPUT_TOKENS_MAX)
    provider = endpoint.provider
    return call_once(provider.base_url, provider.kind, prompt, terms, total_s=TOTAL_S)


def _body(endpoint: Endpoint) -> dict[str, Any]:
    """The newer name of the cap only where the older one is not offered."""
    supported = endpoint.supported_parameters
    newer = "max_completion_tokens" in supported and "max_tokens" not in supported
    return {
        "model": endpoint.upstream_model,
        "messages": [{"role": "user", "content": "Say hello."}],
        "max_completion_tokens" if newer else "max_tokens": OUTPUT_TOKENS_MAX,
    }


def _judge_reply(kind: str, reply: Reply, body: bytes) -> tuple[bool, str]:
    """Whether it is an answer, and its first words or the upstream's own error."""
    if not 200 <= reply.status < 300:
        return False, _text(body) or "An empty answer."
    try:
        answer = wire_of(kind).answer(body, reply.headers.get("content-type", ""))
    except UpstreamFailure as failure:
        return False, f"Not an answer: {failure.raw or failure.message}"
    if answer.error is not None:
        return False, _text(body)
    words = _words(answer.message)
    return True, words[:_SHOWN_CHARS] or "An answer without text."


def _words(message: dict[str, Any]) -> str:
    told = map(message.get, ("content", "reasoning", "reasoning_content"))
    return next((text for text in told if isinstance(text, str) and text), "")


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")[:RAW_CHARS_MAX]


def _mask_credential(credential: str | None, said: str) -> str:
    """Some upstreams repeat the credential they refuse."""
    return said.replace(credential, "[credential]") if credential else said
