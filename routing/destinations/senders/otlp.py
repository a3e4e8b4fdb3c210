"""Senders of OTLP over HTTP in JSON: the collector, a webhook, and vendors that take it."""

import base64
from collections.abc import Mapping, Sequence
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


class Target(NamedTuple):
    """Where a config's requests go. `extra` are attributes of the vendor's own."""

    url: str
    headers: Mapping[str, str]
    method: str = "POST"
    extra: Mapping[str, str] | None = None


class OtlpConfig(DestinationConfig):
    """Base of the configs whose receivers take OTLP."""

    def find_target(self) -> Target:
        raise NotImplementedError


class WebhookConfig(OtlpConfig):
    url: Url
    method: Literal["POST", "PUT"] = "POST"
    headers: Headers | None = None

    def find_target(self) -> Target:
        return Target(self.url, self.headers or {}, self.method)


class CollectorConfig(OtlpConfig):
    endpoint: Url
    headers: Headers | None = None

    def find_target(self) -> Target:
        return Target(_add_path(self.endpoint, _TRACES), self.headers or {})


class LangfuseConfig(OtlpConfig):
    secrets: ClassVar[frozenset[str]] = frozenset({"secretKey"})

    publicKey: Word
    secretKey: Secret
    baseUrl: Url = "https://cloud.langfuse.com"
    headers: Headers | None = None

    def find_target(self) -> Target:
        extra = {
            "langfuse.observation.input": "input",
            "langfuse.observation.output": "output",
            "langfuse.trace.name": "trace_name",
        }
        headers = {"Authorization": _basic(self.publicKey, self.secretKey)}
        url = _add_path(self.baseUrl, f"/api/public/otel{_TRACES}")
        return Target(url, headers | (self.headers or {}), extra=extra)


class LangsmithConfig(OtlpConfig):
    secrets: ClassVar[frozenset[str]] = frozenset({"apiKey"})

    apiKey: Secret
    endpoint: Url = "https://api.smith.langchain.com"
    project: Word | None = None
    workspaceId: Word | None = None

    def find_target(self) -> Target:
        headers = {"x-api-key": self.apiKey}
        if self.project:
            headers["Langsmith-Project"] = self.project
        if self.workspaceId:
            headers["X-Tenant-Id"] = self.workspaceId
        extra = {
            "gen_ai.prompt": "input",
            "gen_ai.completion": "output",
            # It makes threads of what has the same one. `session` is its word for a project.
            "langsmith.metadata.session_id": "session_id",
        }
        return Target(_add_path(self.endpoint, f"/otel{_TRACES}"), headers, extra=extra)


class GrafanaConfig(OtlpConfig):
    secrets: ClassVar[frozenset[str]] = frozenset({"apiKey"})

    apiKey: Secret
    instanceId: Word
    baseUrl: Url

    def find_target(self) -> Target:
        headers = {"Authorization": _basic(self.instanceId, self.apiKey)}
        return Target(_add_path(self.baseUrl, f"/otlp{_TRACES}"), headers)


def _check_dsn(dsn: str) -> str:
    try:
        key = urlsplit(dsn).username
    except ValueError:
        key = None
    if not key:
        raise PydanticCustomError("dsn", "Invalid input: expected https://KEY@HOST/PROJECT")
    return dsn


class SentryConfig(OtlpConfig):
    secrets: ClassVar[frozenset[str]] = frozenset({"dsn"})

    dsn: Annotated[Secret, AfterValidator(_check_dsn)]
    endpoint: Url

    def find_target(self) -> Target:
        key = urlsplit(self.dsn).username
        headers = {"x-sentry-auth": f"sentry sentry_key={key}"}
        return Target(_add_path(self.endpoint, _TRACES), headers)


def _add_path(base: str, path: str) -> str:
    """The base URL with the path behind it, unless it is there."""
    base = base.rstrip("/")
    return base if base.endswith(_TRACES) else f"{base}{path}"


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _build(
    config: OtlpConfig, traces: Sequence[TraceFacts], groups: MetadataGroups
) -> OutgoingRequest:
    target = config.find_target()
    body = build_payload(traces, groups, target.extra)
    return json_request(target.url, body, target.headers, method=target.method)


def _build_test(config: OtlpConfig) -> OutgoingRequest:
    target = config.find_target()
    headers = {**target.headers, **dict([TEST_HEADER])}
    return json_request(target.url, empty_payload(), headers, method=target.method)


_CONFIGS: Final[Mapping[str, type[OtlpConfig]]] = {
    "grafana": GrafanaConfig,
    "langfuse": LangfuseConfig,
    "langsmith": LangsmithConfig,
    "otel-collector": CollectorConfig,
    "sentry": SentryConfig,
    "webhook": WebhookConfig,
}
OTLP_SENDERS: Final[Mapping[str, Sender[Any]]] = {
    name: Sender(config, _build, _build_test) for name, config in _CONFIGS.items()
}
