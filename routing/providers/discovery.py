"""Providers that need no introduction: where they are and how their key is usually called."""

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import requests
from django.conf import settings

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import JsonObject, loads
from routing.entities.exchange import ListedModel
from routing.entities.vocabulary import INPUT_MODALITIES, PARAMETERS
from routing.upstreams.base import USUAL_PARAMETERS
from routing.upstreams.wires import get_wire


@dataclass(frozen=True, slots=True)
class KnownProvider:
    """A provider to add. `key_env` names the environment variable its key is looked for in, `kind`
    is the wire kind it speaks."""

    slug: str
    name: str
    base_url: str
    key_env: str
    kind: str = "openai"

    def key(self) -> str | None:
        """The key from the environment, if there is one."""
        return os.environ.get(self.key_env, "").strip() or None


_TABLE: Final[tuple[tuple[str, ...], ...]] = (
    ("anthropic", "Anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "anthropic"),
    ("openai", "OpenAI", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    ("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    ("groq", "Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    ("mistral", "Mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    ("deepseek", "DeepSeek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    ("together", "Together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    ("fireworks", "Fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    ("xai", "xAI", "https://api.x.ai/v1", "XAI_API_KEY"),
    ("cerebras", "Cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    ("moonshotai", "Moonshot AI", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    ("novita", "Novita", "https://api.novita.ai/v3/openai", "NOVITA_API_KEY"),
)
KNOWN: Final = {row[0]: KnownProvider(*row) for row in _TABLE}


def list_configured_providers() -> list[KnownProvider]:
    """The well-known providers whose key is in the environment."""
    return [provider for provider in KNOWN.values() if provider.key()]


CONNECT_S: Final = 5
READ_S: Final = 20
TOTAL_S: Final = 60
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
_WORDS_SHOWN: Final = 200
_ID_CHARS_MAX: Final = 200
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9._:-]+")
_KEY: Final = re.compile(r"[!-~]+")
_CONTEXT_KEYS: Final = (
    *("context_length", "context_window", "max_context_length", "max_model_len"),
    "max_input_tokens",
)
_OUTPUT_KEYS: Final = ("max_completion_tokens", "max_output_tokens")
_OTHER_TYPES: Final = frozenset(
    {"embedding", "embeddings", "image", "video", "audio", "moderation", "rerank", "transcribe"}
)
_CHAT_TYPES: Final = frozenset({"chat", "language", "llm", "vlm"})
# What a model is called that does something else, where its provider tells nothing but names.
_OTHER_NAMES: Final = re.compile(
    r"(?<![a-z])(embed(ding|dings|der)?|minilm|bge|gte|e5|rerank(er)?|whisper|tts|dall-e"
    r"|transcribe|moderation)(?![a-z])",
    re.IGNORECASE,
)
_OPENAI_EXTRA: Final = ("max_completion_tokens", "logprobs", "top_logprobs", "parallel_tool_calls")
# OpenAI's reasoning models refuse sampling parameters and the old spelling of the token limit.
_OPENAI_REASONING: Final = re.compile(r"(o\d|gpt-[5-9])")
_REASONING: Final = (
    *("max_completion_tokens", "seed", "response_format", "structured_outputs"),
    *("tools", "tool_choice", "parallel_tool_calls", "reasoning", "reasoning_effort"),
)


class DiscoveryError(Exception):
    """The provider did not answer the way a provider does; the text says how, without the key."""


class NoModelList(DiscoveryError):
    """The provider is there, and does not list its models."""


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model as a provider lists it; `id` is ours (`author/slug`), `upstream_model` theirs. The
    parameters are `assumed` where neither the provider nor what is known of it tells them."""

    id: str
    upstream_model: str
    name: str | None
    created: int | None
    context_length: int | None
    max_completion_tokens: int | None
    input_modalities: list[str]
    supported_parameters: list[str]
    chats: bool
    assumed: bool


def discover(
    provider: KnownProvider, key: str | None, *, named: Sequence[str] = ()
) -> list[FoundModel]:
    """The models a provider lists, first of each id; with `named` these, listed or not, and all of
    them are taken to chat. Raises `DiscoveryError`."""
    if key and not _KEY.fullmatch(key):
        # requests would quote the whole header in its complaint.
        raise DiscoveryError(f"the key of {provider.name} has characters no key has")
    try:
        entries = _fetch_entries(provider, key)
    except NoModelList:
        if not named:
            raise
        entries = []
    if named:
        listed = {entry["id"]: entry for entry in reversed(entries)}
        entries = [listed.get(name, {"id": name}) for name in named]
    models: dict[str, FoundModel] = {}
    for entry in entries:
        model = _read_entry(provider, entry)
        models.setdefault(model.id, replace(model, chats=True) if named else model)
    return list(models.values())


def _fetch_entries(provider: KnownProvider, key: str | None) -> list[JsonObject]:
    """The listed entries that have an id. Raises `DiscoveryError`."""
    answer = _fetch_list(provider, key)
    listed = answer.get("data") if isinstance(answer, dict) else answer
    if not isinstance(listed, list):
        raise NoModelList(f"{provider.name} answered without a list of models")
    entries = [each for each in listed if isinstance(each, dict)]
    entries = [each for each in entries if isinstance(each.get("id"), str) and each["id"]]
    if not entries:
        raise NoModelList(f"{provider.name} lists no models")
    return entries


def _fetch_list(provider: KnownProvider, key: str | None) -> Any:
    listing = get_wire(provider.kind).listing(key)
    url = provider.base_url.rstrip("/") + listing.path
    proxy = settings.ROUTER_UPSTREAM_PROXY
    try:
        with requests.Session() as session:
            # Proxies and .netrc of the environment are none of a provider's business.
            session.trust_env = False
            session.proxies = {"http": proxy, "https": proxy} if proxy else {}
            response = session.get(
                url,
                headers=dict(listing.headers),
                timeout=(CONNECT_S, READ_S),
                allow_redirects=False,
                stream=True,
            )
            with response:
                status = response.status_code
                if status in (401, 403):
                    raise DiscoveryError(f"{provider.name} refuses the key (status {status})")
                body = _read_body(provider, response)
                if status != 200:
                    text = body[:_WORDS_SHOWN].decode(errors="replace")
                    raise NoModelList(
                        f"{provider.name} answered {status}: {' '.join(text.split())}"
                    )
                return loads(body)
    except MalformedJson as error:
        raise NoModelList(f"{provider.name} answered without JSON at {url}") from error
    except (requests.RequestException, ValueError) as error:
        why = _describe_silence(error)
        raise DiscoveryError(f"{provider.name} does not answer at {url}: {why}") from error


def _describe_silence(error: Exception) -> str:
    """Why there is no answer, in a few words: requests tells the whole chain of causes."""
    if isinstance(error, requests.Timeout):
        return "it is silent for too long"
    cause: Any = error
    while isinstance(cause, BaseException):
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        # urllib3 keeps the cause in `reason`, requests what urllib3 raised as its argument.
        inner = [getattr(cause, "reason", None), cause.__cause__, cause.__context__, *cause.args]
        cause = next((each for each in inner if isinstance(each, BaseException)), None)
    return " ".join(str(error).split())[:_WORDS_SHOWN]


def _read_body(provider: KnownProvider, response: requests.Response) -> bytes:
    deadline = time.monotonic() + TOTAL_S
    body = bytearray()
    for chunk in response.iter_content(65_536):
        body += chunk
        if len(body) > ANSWER_BYTES_MAX:
            raise DiscoveryError(f"{provider.name} sent more than {ANSWER_BYTES_MAX} bytes")
        if time.monotonic() > deadline:
            raise DiscoveryError(f"{provider.name} took longer than {TOTAL_S} s")
    return bytes(body)


def _read_entry(provider: KnownProvider, entry: JsonObject) -> FoundModel:
    name = entry.get("name") or entry.get("display_name")
    created = entry.get("created")
    if not created:
        try:
            created = int(datetime.fromisoformat(entry["created_at"]).timestamp())
        except (KeyError, TypeError, ValueError, OverflowError):
            created = None
    parameters = entry.get("supported_parameters")
    is_told = isinstance(parameters, list) and bool(parameters)
    listed = get_wire(provider.kind).read_listed(entry)
    return FoundModel(
        id=_our_id(provider.slug, entry["id"]),
        upstream_model=entry["id"][:_ID_CHARS_MAX],
        name=name[:_ID_CHARS_MAX] if isinstance(name, str) else None,
        created=created if type(created) is int and 0 < created < 2**40 else None,
        context_length=_first_count(entry, _CONTEXT_KEYS),
        max_completion_tokens=_first_count(entry, _OUTPUT_KEYS) or listed.output_tokens_max,
        input_modalities=_find_input_modalities(provider, entry, listed),
        supported_parameters=_find_parameters(provider, entry, listed),
        chats=_is_chat_model(entry),
        assumed=not is_told and listed.parameters is None and provider.slug != "openai",
    )


def _our_id(provider_slug: str, upstream: str) -> str:
    """`author/slug`: theirs if it has that form, else the last part behind the provider's slug."""
    parts = [_NOT_IN_IDS.sub("-", part).strip("-._:") for part in upstream.split("/")]
    parts = [part for part in parts if part] or ["model"]
    author = parts[0] if len(parts) == 2 else provider_slug
    return f"{author.replace(':', '-')}/{parts[-1]}"[:_ID_CHARS_MAX]


def _first_count(entry: JsonObject, keys: Sequence[str]) -> int | None:
    for key in keys:
        value = entry.get(key)
        if type(value) is int and 0 < value < 2**53:
            return value
    return None


def _read_object(entry: JsonObject, key: str) -> Mapping[str, Any]:
    value = entry.get(key)
    return value if isinstance(value, dict) else {}


def _find_input_modalities(
    provider: KnownProvider, entry: JsonObject, listed: ListedModel
) -> list[str]:
    named = _read_object(entry, "architecture").get("input_modalities")
    if isinstance(named, list) and "text" in named:
        return [modality for modality in INPUT_MODALITIES if modality in named]
    if listed.input_modalities is not None:
        return listed.input_modalities
    sees = entry.get("supports_image_input") or _read_object(entry, "capabilities").get("vision")
    # OpenAI says nothing about it, and nearly all of its chat models see.
    return ["text", "image"] if sees or provider.slug == "openai" else ["text"]


def _find_parameters(provider: KnownProvider, entry: JsonObject, listed: ListedModel) -> list[str]:
    named = entry.get("supported_parameters")
    if isinstance(named, list) and named:
        return [parameter for parameter in PARAMETERS if parameter in named]
    if listed.parameters is not None:
        return listed.parameters
    if provider.slug != "openai":
        return list(get_wire(provider.kind).usual_parameters)
    reasons = _OPENAI_REASONING.match(entry["id"])
    return list(_REASONING if reasons else USUAL_PARAMETERS + _OPENAI_EXTRA)


def _is_chat_model(entry: JsonObject) -> bool:
    """False where the provider says that the model does something else, or says nothing of it and
    its name does."""
    outputs = _read_object(entry, "architecture").get("output_modalities")
    able = _read_object(entry, "capabilities").get("completion_chat")
    claims = [
        None if not isinstance(outputs, list) else "text" in outputs,
        able if isinstance(able, bool) else None,
        entry.get("supports_chat"),
        True if entry.get("type") in _CHAT_TYPES else None,
        False if entry.get("type") in _OTHER_TYPES else None,
    ]
    if False in claims:
        return False
    return True in claims or not _OTHER_NAMES.search(entry["id"])
