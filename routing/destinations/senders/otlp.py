"""Senders of OTLP over HTTP in JSON: the collector, a webhook, and vendors that take it."""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from routing.destinations.config import DestinationConfig, Headers, Secret, Url, Word
from routing.destinations.facts import MetadataGroups, TraceFacts
from routing.destinations.senders.interface import (
    TEST_HEADER,
    OutgoingRequest,
    Sender,
    json_request,
)
from routing.destinations.spans import build_payload, empty_payload

_TRACES: Final = "/v1/traces"


class WebhookConfig(DestinationConfig):
    url: Url
    method: Literal["POST", "PUT"] = "POST"
    headers: Headers | None = None


class CollectorConfig(DestinationConfig):
    endpoint: Url
    headers: Headers | None = None


class LangfuseConfig(DestinationConfig):
    secrets: ClassVar[frozenset[str]] = frozenset({"secretKey"})

    publicKey: Word
    secretKey: Secret
    baseUrl: Url = "https://cloud.langfuse.com"
    headers: Headers | None = None


class LangsmithConfig(DestinationConfig):
    secrets: ClassVar[frozenset[str]] = frozenset({"apiKey"})

    apiKey: Secret
    endpoint: Url = "https://api.smith.langchain.com"
    project: Word | None = None
    workspaceId: Word | None = None


class GrafanaConfig(DestinationConfig):
    secrets: ClassVar[frozenset[str]] = frozenset({"apiKey"})

    apiKey: Secret
    instanceId: Word
    baseUrl: Url


def _check_dsn(dsn: str) -> str:
    try:
        key = urlsplit(dsn).username
    except ValueError:
        key = None
    if not key:
        raise PydanticCustomError("dsn", "Invalid input: expected https://KEY@HOST/PROJECT")
    return dsn


class SentryConfig(DestinationConfig):
    secrets: ClassVar[frozenset[str]] = frozenset({"dsn"})

    dsn: Annotated[Secret, AfterValidator(_check_dsn)]
    endpoint: Url


class Target(NamedTuple):
    """Where a config's requests go. `extra` are attributes of the vendor's own."""

    url: str
    headers: Mapping[str, str]
    method: str = "POST"
    extra: Mapping[str, str] | None = None


def _find_webhook(config: WebhookConfig) -> Target:
    return Target(config.url, config.headers or {}, config.method)


def _find_collector(config: CollectorConfig) -> Target:
    return Target(_add_path(config.endpoint, _TRACES), config.headers or {})


def _find_langfuse(config: LangfuseConfig) -> Target:
    extra = {
        "langfuse.observation.input": "input",
        "langfuse.observation.output": "output",
        "langfuse.trace.name": "trace_name",
    }
    headers = {"Authorization": _basic(config.publicKey, config.secretKey)}
    url = _add_path(config.baseUrl, f"/api/public/otel{_TRACES}")
    return Target(url, headers | (config.headers or {}), extra=extra)


def _find_langsmith(config: LangsmithConfig) -> Target:
    headers = {"x-api-key": config.apiKey}
    if config.project:
        headers["Langsmith-Project"] = config.project
    if config.workspaceId:
        headers["X-Tenant-Id"] = config.workspaceId
    extra = {"gen_ai.prompt": "input", "gen_ai.completion": "output"}
    url = _add_path(config.endpoint, f"/otel{_TRACES}")
    return Target(url, headers, extra=extra | {"langsmith.trace.name": "trace_name"})


def _find_grafana(config: GrafanaConfig) -> Target:
    headers = {"Authorization": _basic(config.instanceId, config.apiKey)}
    return Target(_add_path(config.baseUrl, f"/otlp{_TRACES}"), headers)


def _find_sentry(config: SentryConfig) -> Target:
    key = urlsplit(config.dsn).username
    headers = {"x-sentry-auth": f"sentry sentry_key={key}"}
    return Target(_add_path(config.endpoint, _TRACES), headers)


def _add_path(base: str, path: str) -> str:
    """The base URL with the path behind it, unless it is there."""
    base = base.rstrip("/")
    return base if base.endswith(_TRACES) else f"{base}{path}"


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _sender(config: type[Any], find: Callable[[Any], Target]) -> Sender[Any]:
    def build(
        given: object, traces: Sequence[TraceFacts], groups: MetadataGroups
    ) -> OutgoingRequest:
        target = find(given)
        body = build_payload(traces, groups, target.extra)
        return json_request(target.url, body, target.headers, method=target.method)

    def build_test(given: object) -> OutgoingRequest:
        target = find(given)
        headers = {**target.headers, **dict([TEST_HEADER])}
        return json_request(target.url, empty_payload(), headers, method=target.method)

    return Sender(config, build, build_test)


OTLP_SENDERS: Final[Mapping[str, Sender[Any]]] = {
    "grafana": _sender(GrafanaConfig, _find_grafana),
    "langfuse": _sender(LangfuseConfig, _find_langfuse),
    "langsmith": _sender(LangsmithConfig, _find_langsmith),
    "otel-collector": _sender(CollectorConfig, _find_collector),
    "sentry": _sender(SentryConfig, _find_sentry),
    "webhook": _sender(WebhookConfig, _find_webhook),
}
