"""Where spans go and how many: the names of OpenTelemetry's own variables."""

from typing import Final

from gateway import env
from gateway.environment.section import Section

setting = Section(
    "Traces",
    "OpenTelemetry's own names; [traces.md](traces.md) says what they do",
)
OTEL_EXPORTER_OTLP_ENDPOINT = setting(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "collector that gets spans by OTLP over HTTP, such as `http://127.0.0.1:4318`; unset, there "
    "are no traces",
    env.base_url,
)
OTEL_EXPORTER_OTLP_PROTOCOL = setting(
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "how the collector is spoken to",
    env.choice,
    "http/protobuf",
    ("http/protobuf",),
)
OTEL_EXPORTER_OTLP_HEADERS = setting(
    "OTEL_EXPORTER_OTLP_HEADERS",
    "headers for the collector, `name=value` with commas between, values percent-encoded",
    env.header_pairs,
)
OTEL_EXPORTER_OTLP_TIMEOUT = setting(
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "milliseconds that a batch of spans may take, tries included; then it is lost",
    env.integer,
    10_000,
    minimum=100,
    maximum=60_000,
)
OTEL_EXPORTER_OTLP_COMPRESSION = setting(
    "OTEL_EXPORTER_OTLP_COMPRESSION",
    "how batches of spans are compressed",
    env.choice,
    "none",
    ("none", "gzip"),
)
OTEL_EXPORTER_OTLP_CERTIFICATE = setting(
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    "file with the certificates that the collector's is checked against",
    env.text,
)
_SAMPLERS: Final = ("parentbased_traceidratio", "parentbased_always_on", "parentbased_always_off")
OTEL_TRACES_SAMPLER = setting(
    "OTEL_TRACES_SAMPLER",
    "which requests have a trace: a share of those whose `traceparent` does not say",
    env.choice,
    "parentbased_traceidratio",
    _SAMPLERS,
)
OTEL_TRACES_SAMPLER_ARG = setting(
    "OTEL_TRACES_SAMPLER_ARG",
    "that share",
    env.decimal,
    1.0,
    maximum=1.0,
)
OTEL_SERVICE_NAME = setting(
    "OTEL_SERVICE_NAME", "name of the gateway in traces", env.text, "routing-gateway"
)
OTEL_RESOURCE_ATTRIBUTES = setting(
    "OTEL_RESOURCE_ATTRIBUTES",
    "attributes of every span, `name=value` with commas between, values percent-encoded",
    env.header_pairs,
)
TRACES_SHARE = {
    "parentbased_always_on": 1.0,
    "parentbased_always_off": 0.0,
}.get(OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG)
