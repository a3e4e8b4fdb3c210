"""What a collector is told of requests, and that a provider's spans hang below ours."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.conftest import FORGETFUL, serving
from tests.conformance.desk import Desk, changed_workspace
from tests.conformance.wide import wide_catalogue
from tests.support.bed import Bed
from tests.support.collector import Collector, SeenSpan, serve_collector
from tests.support.gateways import seed_account
from tests.support.server import GatewayServer

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CANARY = "canary-7c1f09"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with serve_collector() as site:
        yield site


@pytest.fixture(scope="module")
def traced_server(
    tmp_path_factory: pytest.TempPathFactory,
    stores: Bed,
    simulator: SimulatedUpstream,
    collector: Collector,
) -> Iterator[GatewayServer]:
    settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "X-Team=let%20me%20in",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }
    folder, catalogue = tmp_path_factory.mktemp("traced"), wide_catalogue(simulator.url)
    with serving(stores, folder, catalogue, **FORGETFUL, **settings) as server:
        yield server


@pytest.fixture
def desk(traced_server: GatewayServer, simulator: SimulatedUpstream) -> Desk:
    simulator.clear()
    return Desk(traced_server, simulator, seed_account(traced_server))


def by_name(spans: list[SeenSpan]) -> dict[str, SeenSpan]:
    return {span.name.split()[0]: span for span in spans}


def test_a_conversation_that_stays_says_so_in_its_trace_and_its_route(
    desk: Desk, collector: Collector
) -> None:
    desk.ok(session_id="staying")

    response = desk.post(session_id="staying")

    spans = collector.of_request(response.headers["X-Request-Id"], count=5)
    ((name, facts),) = by_name(spans)["plan"].events
    assert (name, facts["gateway.endpoint"]) == ("conversation stays", "gamma")
    assert (facts["gateway.stay.reason"], facts["gateway.stay.saving_usd"]) == ("first", 0)
    path = f"/generation/{response.headers['X-Generation-Id']}/route"
    stay = desk.manage("GET", path).json()["data"]["stay"]
    assert (stay.pop("age_s") < 60, stay) == (
        True,
        {
            "stays": True,
            "reason": "first",
            "endpoint_id": "gamma",
            "other_endpoint_id": "gamma",
            "cached_tokens": 0,
            "saving": 0,
            "dearer": 0,
            "lifetime_s": 600,
        },
    )


def test_an_answered_request_is_one_trace_and_the_provider_hangs_below_its_attempt(
    desk: Desk, collector: Collector
) -> None:
    response = desk.post(max_tokens=5)
    assert response.status_code == 200, response.text

    spans = collector.of_request(response.headers["X-Request-Id"], count=5)

    assert [span.name.split()[0] for span in spans] == ["POST", "plan", "hold", "chat", "settle"]
    server, plan, hold, attempt, settle = spans
    assert (server.kind, server.parent_id, attempt.kind) == ("server", "", "client")
    assert {span.parent_id for span in spans[1:]} == {server.span_id}
    assert server.start_ns <= plan.start_ns <= plan.end_ns <= hold.start_ns
    assert hold.start_ns <= hold.end_ns <= attempt.start_ns <= attempt.end_ns <= settle.start_ns
    assert settle.start_ns < settle.end_ns <= server.end_ns
    assert not any(span.failed for span in spans)
    assert plan.attributes["gateway.plan.candidates"] == ["acme/solo gamma"]
    generation = desk.generation(response.headers["X-Generation-Id"])
    told = attempt.attributes
    assert (told["gen_ai.operation.name"], told["gen_ai.provider.name"]) == ("chat", "gamma")
    assert told["gen_ai.usage.input_tokens"] == generation["tokens_prompt"]
    assert told["gen_ai.usage.output_tokens"] == generation["tokens_completion"]
    assert told["gen_ai.response.finish_reasons"] == [generation["native_finish_reason"]]
    assert told["gateway.cost_usd"] == pytest.approx(float(generation["total_cost"]))
    assert server.attributes["gateway.generation_id"] == generation["id"]
    assert server.attributes["gateway.workspace_id"] == desk.account.workspace_id
    assert settle.attributes["gateway.settled"] is True
    (sent,) = desk.upstream.requests("gamma")
    assert sent["headers"]["traceparent"] == f"00-{server.trace_id}-{attempt.span_id}-01"
    assert server.resource["service.name"] == "routing-gateway"
    assert server.resource["deployment.environment.name"] == "test"
    assert {headers["x-team"] for headers in collector.headers} == {"let me in"}


def test_a_stream_that_failed_over_has_a_span_for_each_attempt(
    desk: Desk, collector: Collector
) -> None:
    desk.upstream.script("alpha", {"status": 503}, repeat=True)
    order = {"order": ["alpha", "beta"]}
    streamed = desk.stream(model="acme/small", provider=order)

    spans = collector.of_request(streamed.response.headers["X-Request-Id"], count=6)

    first, second = (span for span in spans if span.kind == "client")
    assert [span.attributes["gateway.endpoint"] for span in (first, second)] == ["alpha", "beta"]
    assert (first.failed, second.failed) == (True, False)
    assert first.attributes["error.type"] == "provider_overloaded"
    assert [name for name, _ in second.events] == ["first token"]
    sent = [desk.upstream.requests(name)[-1]["headers"] for name in ("alpha", "beta")]
    assert [each["traceparent"].split("-")[2] for each in sent] == [first.span_id, second.span_id]
    assert by_name(spans)["POST"].attributes["gateway.streamed"] is True


def test_a_refused_request_says_which_step_removed_each_endpoint(
    desk: Desk, collector: Collector
) -> None:
    response = desk.post(model="acme/small", provider={"only": ["nobody"]})
    assert response.status_code == 404

    server, plan = collector.of_request(response.headers["X-Request-Id"], count=2)

    assert server.attributes["http.response.status_code"] == 404
    assert server.attributes["gateway.refusal_reason"] == "no_endpoint"
    assert (server.failed, plan.failed) == (False, True)
    removed = {attributes["gateway.endpoint"] for _, attributes in plan.events}
    assert removed >= {"alpha", "beta"}
    steps = {attributes["gateway.plan.step"] for _, attributes in plan.events}
    assert steps == {plan.attributes["gateway.plan.failed_step"]}


def test_a_hold_that_is_refused_is_a_span_that_failed(desk: Desk, collector: Collector) -> None:
    poor = Desk(desk.server, desk.upstream, seed_account(desk.server, credits_usd="0"))
    response = poor.post()
    assert response.status_code == 402

    spans = by_name(collector.of_request(response.headers["X-Request-Id"], count=3))

    assert spans["hold"].failed
    assert spans["hold"].attributes["error.type"] == "payment_required"


def test_the_caller_s_trace_goes_on_and_its_flag_is_obeyed(
    desk: Desk, collector: Collector
) -> None:
    desk.ok(headers={"traceparent": f"00-{TRACE[::-1]}-{SPAN}-00"})
    desk.ok(headers={"traceparent": f"00-{TRACE}-{SPAN}-01"})

    spans = collector.trace(TRACE, count=5)

    assert by_name(spans)["POST"].parent_id == SPAN
    assert not [span for span in collector.spans if span.trace_id == TRACE[::-1]]
    unsampled, sampled = (entry["headers"] for entry in desk.upstream.requests("gamma"))
    assert unsampled["traceparent"].startswith(f"00-{TRACE[::-1]}-")
    assert sampled["traceparent"].split("-")[2] == by_name(spans)["chat"].span_id


@pytest.mark.parametrize("stream", [False, True])
def test_calls_of_server_tools_are_spans_between_the_attempts(
    desk: Desk, collector: Collector, stream: bool
) -> None:
    desk.model = "acme/over-openai"
    call = {"tool_calls": [{"name": "datetime", "arguments": {"timezone": CANARY}}]}
    desk.upstream.script("chat-a", call, {"text": "It is late."})
    response = desk.post(stream=stream, tools=[{"type": "router:datetime"}])
    assert response.status_code == 200, response.text

    spans = collector.of_request(response.headers["X-Request-Id"], count=7)

    first, second = (span for span in spans if span.kind == "client")
    tool = by_name(spans)["execute_tool"]
    assert tool.attributes["gen_ai.tool.name"] == "datetime"
    assert first.end_ns <= tool.start_ns <= tool.end_ns <= second.start_ns


def test_a_model_that_a_tool_asked_is_an_attempt_of_the_same_trace(
    desk: Desk, collector: Collector
) -> None:
    desk.model = "acme/over-openai"
    asked = {"tool_calls": [{"name": "advisor", "arguments": {"question": "Why?"}}]}
    desk.upstream.script("chat-a", asked, {"text": "So it is."})
    desk.upstream.script("messages-a", {"text": "Because."})
    advisor = {"type": "router:advisor", "parameters": {"model": "acme/over-anthropic"}}
    response = desk.post(tools=[advisor])
    assert response.status_code == 200, response.text

    spans = collector.of_request(response.headers["X-Request-Id"], count=8)

    models = [span.attributes["gateway.model"] for span in spans if span.kind == "client"]
    assert models == ["acme/over-openai", "acme/over-anthropic", "acme/over-openai"]
    (sent,) = desk.upstream.requests("messages-a")
    asking = next(s for s in spans if s.attributes.get("gateway.model") == "acme/over-anthropic")
    assert sent["headers"]["traceparent"].split("-")[2] == asking.span_id


def test_content_is_told_where_the_workspace_logs_it_and_nowhere_else(
    desk: Desk, collector: Collector
) -> None:
    said: dict[str, Any] = {"messages": [{"role": "user", "content": f"secret {CANARY}-prompt"}]}
    desk.upstream.script("gamma", {"text": f"{CANARY}-answer"}, {"status": 400, "text": CANARY})
    quiet, failed = desk.post(**said), desk.post(**said)
    for response, count in ((quiet, 5), (failed, 5)):
        collector.of_request(response.headers["X-Request-Id"], count=count)
    whole = b"".join(collector.bodies)
    assert CANARY.encode() not in whole
    assert desk.account.api_key.encode() not in whole
    assert b"Bearer" not in whole

    changed_workspace(desk, is_observability_io_logging_enabled=True)
    desk.upstream.script("gamma", {"text": "An answer."})
    logged = desk.post(**said)
    spans = by_name(collector.of_request(logged.headers["X-Request-Id"], count=5))

    told = spans["POST"].attributes
    assert json.loads(told["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": f"secret {CANARY}-prompt"}]}
    ]
    assert json.loads(told["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "An answer."}]}
    ]
