"""What each sender sends, seen by a receiver on loopback."""

import base64
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from routing.destinations.config import check_config
from routing.destinations.delivery import send_request
from routing.destinations.facts import MetadataGroups
from routing.destinations.senders import SENDERS
from tests.routing.destinations.examples import facts
from tests.support.receiver import Received, Receiver, list_spans, read_attributes

EVERYTHING = MetadataGroups(cost=True, identity=True, request_context=True)


def send_traces(receiver: Receiver, type_name: str, config: Mapping[str, Any]) -> list[Received]:
    """Two traces, sent with that config."""
    sender = SENDERS[type_name]
    trace = {"$ai_total_cost_usd": 0, "model_name": "free"}
    traces = [facts(trace=trace), facts(generation_id="gen-2", ended_ns=1_700_000_003_000_000_000)]
    for part in [[each] for each in traces] if sender.is_trace_alone else [traces]:
        request = sender.build(check_config(sender.config, config), part, EVERYTHING)
        assert send_request(request) == 200
    return receiver.received


@pytest.mark.parametrize(
    ("type_name", "place", "rest", "path", "headers"),
    [
        ("webhook", "url", {"headers": {"X-Token": "t"}}, "/base", {"x-token": "t"}),
        (
            "otel-collector",
            "endpoint",
            {"headers": {"Authorization": "Bearer b"}},
            "/base/v1/traces",
            {"authorization": "Bearer b"},
        ),
        (
            "langfuse",
            "baseUrl",
            {"publicKey": "pk", "secretKey": "sk"},
            "/base/api/public/otel/v1/traces",
            {"authorization": "Basic " + base64.b64encode(b"pk:sk").decode()},
        ),
        (
            "langsmith",
            "endpoint",
            {"apiKey": "k", "project": "p", "workspaceId": "w"},
            "/base/otel/v1/traces",
            {"x-api-key": "k", "langsmith-project": "p", "x-tenant-id": "w"},
        ),
        (
            "grafana",
            "baseUrl",
            {"apiKey": "k", "instanceId": "7"},
            "/base/otlp/v1/traces",
            {"authorization": "Basic " + base64.b64encode(b"7:k").decode()},
        ),
        (
            "sentry",
            "endpoint",
            {"dsn": "https://public@o1.example/2"},
            "/base/v1/traces",
            {"x-sentry-auth": "sentry sentry_key=public"},
        ),
    ],
)
def test_receivers_of_otlp_get_all_traces_at_once(
    receiver: Receiver,
    type_name: str,
    place: str,
    rest: Mapping[str, Any],
    path: str,
    headers: Mapping[str, str],
) -> None:
    (request,) = send_traces(receiver, type_name, {place: f"{receiver.url}/base", **rest})

    assert (request.method, request.path) == ("POST", path)
    assert request.headers["content-type"] == "application/json"
    assert headers.items() <= request.headers.items()
    spans = list_spans(request.json)
    ids = [read_attributes(span)["gen_ai.response.id"] for span in spans]
    assert ids == ["gen-1", "gen-2"]
    # It is no OTLP attribute unless something of it is there.
    assert read_attributes(spans[0])["trace.metadata.request.request_id"] == "req-1"


def test_langfuse_finds_prompt_and_answer_under_its_own_names(receiver: Receiver) -> None:
    config = {"publicKey": "pk", "secretKey": "sk", "baseUrl": receiver.url}
    (request,) = send_traces(receiver, "langfuse", config)

    attributes = read_attributes(list_spans(request.json)[0])
    assert attributes["langfuse.observation.input"] == ('[{"role":"user","content":"What is up?"}]')
    assert attributes["langfuse.observation.output"] == '{"role":"assistant","content":"The sky."}'


def test_langsmith_joins_a_session_and_calls_a_run_by_its_own_name(receiver: Receiver) -> None:
    sender = SENDERS["langsmith"]
    config = check_config(sender.config, {"apiKey": "k", "endpoint": receiver.url})
    named = facts(trace={"trace_name": "Whole", "generation_name": "Step"})
    send_request(sender.build(config, [named], EVERYTHING))

    root, step = list_spans(receiver.received[0].json)
    assert (root["name"], step["name"]) == ("Whole", "Step")
    attributes = read_attributes(step)
    assert attributes["langsmith.metadata.session_id"] == "session-1"
    # LangSmith would call the run by it.
    assert "langsmith.trace.name" not in attributes
    assert attributes["gen_ai.prompt"] == '[{"role":"user","content":"What is up?"}]'
    assert attributes["gen_ai.completion"] == '{"role":"assistant","content":"The sky."}'


def test_s3_gets_an_object_per_trace_with_a_signature_that_holds(receiver: Receiver) -> None:
    config = {
        "bucketName": "my-traces",
        "accessKeyId": "AKIA",
        "secretAccessKey": "a-secret-access-key",
        "region": "eu-west-1",
        "endpoint": receiver.url,
        "prefix": "gateway",
        "pathTemplate": "{prefix}/{year}/{month}/../{day}/{apiKeyName}",
    }
    first, second = send_traces(receiver, "s3", config)

    assert first.method == second.method == "PUT"
    folder = "/my-traces/gateway/2023/11/14/team%20key/"
    assert first.path.startswith(folder)
    assert first.path.endswith("-1700000002000.json")
    trace_id = list_spans(first.json)[0]["traceId"]
    assert first.path == f"{folder}{trace_id}-1700000002000.json"
    assert len(list_spans(first.json)) == len(list_spans(second.json)) == 1
    assert first.path != second.path
    assert sign_again(receiver, first) == first.headers["authorization"]


def sign_again(receiver: Receiver, got: Received) -> str:
    """The signature that the service would work out from what arrived."""
    signed = ("content-type", "x-amz-content-sha256", "x-amz-date")
    headers = {name: got.headers[name] for name in signed}
    request = AWSRequest(got.method, receiver.url + got.path, headers=headers, data=got.body)
    request.context["timestamp"] = got.headers["x-amz-date"]
    auth = S3SigV4Auth(Credentials("AKIA", "a-secret-access-key"), "s3", "eu-west-1")
    text = auth.string_to_sign(request, auth.canonical_request(request))
    signature = auth.signature(text, request)
    scope = got.headers["authorization"].rpartition("Signature=")[0]
    return f"{scope}Signature={signature}"


def test_datadog_gets_its_own_spans(receiver: Receiver) -> None:
    config = {"apiKey": "dd-key", "mlApp": "bot", "url": receiver.url}
    (request,) = send_traces(receiver, "datadog", config)

    assert request.path == "/api/intake/llm-obs/v1/trace/spans"
    assert request.headers["dd-api-key"] == "dd-key"
    attributes = request.json["data"]["attributes"]
    assert attributes["ml_app"] == "bot"
    span = attributes["spans"][0]
    assert (span["parent_id"], span["session_id"], span["status"]) == (
        "undefined",
        "session-1",
        "ok",
    )
    assert (span["start_ns"], span["duration"]) == (1_700_000_000_000_000_000, 2_000_000_000)
    assert span["meta"]["kind"] == "llm"
    assert span["meta"]["input"]["messages"] == [{"role": "user", "content": "What is up?"}]
    assert span["metrics"]["input_tokens"] == 12


def test_posthog_gets_an_event_per_generation(receiver: Receiver) -> None:
    (request,) = send_traces(receiver, "posthog", {"apiKey": "ph-key", "endpoint": receiver.url})

    assert (request.path, request.json["api_key"]) == ("/batch/", "ph-key")
    event, _ = request.json["batch"]
    properties = event["properties"]
    assert event["event"] == "$ai_generation"
    assert event["timestamp"] == "2023-11-14T22:13:22.000Z"
    assert (properties["distinct_id"], properties["$ai_session_id"]) == ("user-raw", "session-1")
    assert (properties["$ai_latency"], properties["$ai_time_to_first_token"]) == (2.0, 0.25)
    assert properties["$ai_total_cost_usd"] == 0.0015
    assert properties["$ai_output_choices"] == [{"role": "assistant", "content": "The sky."}]


def test_posthog_hangs_an_event_below_the_callers_span_and_no_other(receiver: Receiver) -> None:
    sender = SENDERS["posthog"]
    config = check_config(sender.config, {"apiKey": "ph-key", "endpoint": receiver.url})
    named = [facts(trace={"trace_name": "Whole"}), facts(trace={"parent_span_id": "mine"})]
    send_request(sender.build(config, named, EVERYTHING))

    events = receiver.received[0].json["batch"]
    assert [event["properties"].get("$ai_parent_id") for event in events] == [None, "mine"]
