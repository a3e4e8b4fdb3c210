"""A tiny request to one endpoint, outside the books: nothing is charged, nothing is recorded."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.admin import AdminSite
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from gateway.database.db import release_connection
from gateway.outbound.errors import OutboundError
from gateway.outbound.reply import Reply
from gateway.sealing import UnsealError
from routing.catalogue.credentials import find_credential
from routing.catalogue.models import Endpoint
from routing.entities.entries import find_wire_kind
from routing.entities.exchange import Prompt, Terms
from routing.entities.vocabulary import EMBEDDINGS
from routing.formats.embeddings import read_vector
from routing.upstreams.failures import RAW_CHARS_MAX, UpstreamFailure
from routing.upstreams.wires import CHAT_KINDS, call_once, get_wire

TRIALS_MAX: Final = 10
TOTAL_S: Final = 15.0
OUTPUT_TOKENS_MAX: Final = 16
_SHOWN_CHARS: Final = 200
_TEXT: Final = "Say hello."


@dataclass(frozen=True, slots=True)
class EndpointTrial:
    """How one went. `status` is the upstream's own, None when no answer came. `text` has the first
    words of its answer, or its own words on why there is none. Latency is in milliseconds."""

    endpoint: Endpoint
    ok: bool
    status: int | None
    latency_ms: int | None
    text: str


def trial_page(
    request: HttpRequest, site: AdminSite, endpoints: QuerySet[Any], *, send: bool
) -> TemplateResponse:
    """Test requests to these endpoints: sent and shown, or explained with a button to send them."""
    chosen = list(endpoints.select_related("model", "provider")[: TRIALS_MAX + 1])
    context = {
        **site.each_context(request),
        "title": "Test request",
        "opts": Endpoint._meta,
        "endpoints": chosen[:TRIALS_MAX],
        "left_out": len(chosen) > TRIALS_MAX,
        "trials_max": TRIALS_MAX,
        "tokens": OUTPUT_TOKENS_MAX,
        "seconds": TOTAL_S,
        "trials": try_endpoints(chosen) if send else None,
    }
    return TemplateResponse(request, "admin/routing/endpoint/trial.html", context)


def try_endpoints(endpoints: Sequence[Endpoint]) -> list[EndpointTrial]:
    """Ask up to ten endpoints at once; all of it takes about 15 s at most."""
    credentials: list[str | UnsealError | None] = []
    for endpoint in endpoints[:TRIALS_MAX]:
        try:
            credentials.append(find_credential(endpoint.provider))
        except UnsealError as error:
            credentials.append(error)
    release_connection()
    with ThreadPoolExecutor(max_workers=TRIALS_MAX) as threads:
        return list(threads.map(_try_endpoint, endpoints, credentials))


def _try_endpoint(endpoint: Endpoint, credential: str | UnsealError | None) -> EndpointTrial:
    own, model = endpoint.output_modalities, endpoint.model
    outputs = model.output_modalities if own is None else own
    kind = find_wire_kind(endpoint.provider.kind, outputs)
    if kind != EMBEDDINGS and kind not in CHAT_KINDS:
        text = f"Endpoints of kind {kind} cannot be tried from here."
        return EndpointTrial(endpoint, ok=False, status=None, latency_ms=None, text=text)
    if isinstance(credential, UnsealError):
        text = f"The stored credential {credential}. Enter it again."
        return EndpointTrial(endpoint, ok=False, status=None, latency_ms=None, text=text)
    started = time.monotonic()
    status: int | None = None
    try:
        with _send_request(endpoint, kind, credential) as reply:
            status = reply.status
            ok, text = _judge_reply(kind, reply, reply.read_all())
    except (OutboundError, ValueError) as error:
        ok, text = False, f"No answer: {error}"
    latency_ms = round((time.monotonic() - started) * 1000)
    if credential:
        # Some upstreams repeat the credential they refuse.
        text = text.replace(credential, "[credential]")
    return EndpointTrial(endpoint, ok, status, latency_ms, text)


def _send_request(endpoint: Endpoint, kind: str, credential: str | None) -> Reply:
    supported = endpoint.supported_parameters
    # The newer name of the cap only where the older one is not offered.
    newer = "max_completion_tokens" in supported and "max_tokens" not in supported
    body = {
        "model": endpoint.upstream_model,
        "messages": [{"role": "user", "content": _TEXT}],
        "max_completion_tokens" if newer else "max_tokens": OUTPUT_TOKENS_MAX,
    }
    original = {"input": _TEXT} if kind == EMBEDDINGS else None
    prompt = Prompt(body, original, False, OUTPUT_TOKENS_MAX, None, None, False)
    takes = frozenset(supported)
    terms = Terms(endpoint.upstream_model, takes, None, credential, None, OUTPUT_TOKENS_MAX)
    return call_once(endpoint.provider.base_url, kind, prompt, terms, total_s=TOTAL_S)


def _judge_reply(kind: str, reply: Reply, body: bytes) -> tuple[bool, str]:
    """Whether it is an answer, and its first words or the upstream's own error."""
    own_text = body.decode("utf-8", "replace")[:RAW_CHARS_MAX]
    if not 200 <= reply.status < 300:
        return False, own_text or "An empty answer."
    try:
        answer = get_wire(kind).answer(body, reply.headers.get("content-type", ""))
    except UpstreamFailure as failure:
        return False, f"Not an answer: {failure.raw or failure.message}"
    if answer.error is not None:
        return False, own_text
    if kind == EMBEDDINGS:
        assert answer.native is not None
        numbers = read_vector(answer.native.value["vectors"][0])
        return True, f"A vector of {len(numbers)} dimensions."
    texts = map(answer.message.get, ("content", "reasoning", "reasoning_content"))
    text = next((each for each in texts if isinstance(each, str) and each), "")
    return True, text[:_SHOWN_CHARS] or "An answer without text."
