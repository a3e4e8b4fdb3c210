"""Traces as spans of OpenTelemetry."""

import json
import re
from typing import Any

from routing.destinations.facts import MetadataGroups
from routing.destinations.spans import build_payload
from tests.routing.destinations.examples import facts
from tests.support.receiver import list_spans, read_attributes

HEX_TRACE, HEX_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def spans(groups: MetadataGroups | None = None, **changes: Any) -> list[Any]:
    return list_spans(build_payload([facts(**changes)], groups or MetadataGroups()))


def test_a_generation_is_one_span_with_the_attributes_of_the_conventions() -> None:
    (span,) = spans()

    assert span["name"] == "chat acme/small"
    assert re.fullmatch("[0-9a-f]{32}", span["traceId"])
    assert re.fullmatch("[0-9a-f]{16}", span["spanId"])
    assert "parentSpanId" not in span
    assert (span["kind"], span["status"]) == (3, {"code": 1})
    times = (span["startTimeUnixNano"], span["endTimeUnixNano"])
    assert times == ("1700000000000000000", "1700000002000000000")
    attributes = read_attributes(span)
    said = attributes.pop("gen_ai.input.messages"), attributes.pop("gen_ai.output.messages")
    assert [json.loads(each) for each in said] == [
        [{"role": "user", "parts": [{"type": "text", "content": "What is up?"}]}],
        [{"role": "assistant", "parts": [{"type": "text", "content": "The sky."}]}],
    ]
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "Acme",
        "gen_ai.system": "Acme",
        "gen_ai.request.model": "acme/latest",
        "gen_ai.response.model": "acme/small",
        "gen_ai.response.id": "gen-1",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.total_tokens": 15,
        "gen_ai.usage.cache_read.input_tokens": 2,
        "gen_ai.usage.reasoning.output_tokens": 1,
        "gen_ai.usage.cost": 0.0015,
        "http.response.status_code": 200,
        "user.id": "user-raw",
        "session.id": "session-1",
    }


def test_the_callers_names_shape_the_trace() -> None:
    trace = {
        "trace_id": HEX_TRACE.upper(),
        "trace_name": "Support",
        "span_name": "Summarise",
        "generation_name": "Draft",
        "team": "blue",
        "tags": ["a", {"b": 1}],
        "attempt": 2,
    }
    root, parent, generation = spans(trace=trace)

    assert [each["name"] for each in (root, parent, generation)] == [
        "Support",
        "Summarise",
        "Draft",
    ]
    assert {each["traceId"] for each in (root, parent, generation)} == {HEX_TRACE}
    assert "parentSpanId" not in root
    assert (parent["parentSpanId"], generation["parentSpanId"]) == (
        root["spanId"],
        parent["spanId"],
    )
    attributes = read_attributes(generation)
    assert {name: value for name, value in attributes.items() if name.startswith("trace.")} == {
        "trace.name": "Support",
        "trace.metadata.team": "blue",
        "trace.metadata.tags": '["a",{"b":1}]',
        "trace.metadata.attempt": 2,
    }


def test_generations_of_one_trace_share_its_id_and_its_outer_spans() -> None:
    trace = {"trace_id": "order 66", "trace_name": "Order"}
    first, second = (spans(generation_id=name, trace=trace) for name in ("gen-1", "gen-2"))

    assert first[0]["spanId"] == second[0]["spanId"]
    assert first[1]["spanId"] != second[1]["spanId"]
    assert len({span["traceId"] for span in first + second}) == 1


def test_the_callers_own_span_is_the_parent_and_has_the_root() -> None:
    trace = {"trace_id": HEX_TRACE, "trace_name": "Root", "parent_span_id": HEX_SPAN}
    (only,) = spans(trace=trace)
    outer, inner = spans(trace=trace | {"span_name": "Step"})

    assert (only["traceId"], only["parentSpanId"]) == (HEX_TRACE, HEX_SPAN)
    assert (outer["parentSpanId"], inner["parentSpanId"]) == (HEX_SPAN, outer["spanId"])


def test_groups_of_metadata_are_added_where_they_are_switched_on() -> None:
    def metadata(**groups: bool) -> Any:
        attributes = read_attributes(spans(MetadataGroups(**groups))[-1])
        return {name: value for name, value in attributes.items() if "metadata" in name}

    assert metadata() == {}
    assert metadata(cost=True) == {
        "trace.metadata.cost.charge_usd": 0.0015,
        "trace.metadata.cost.upstream_usd": 0.001,
        "trace.metadata.cost.is_byok": False,
    }
    assert metadata(identity=True, request_context=True) == {
        "trace.metadata.identity.workspace_id": "w-1",
        "trace.metadata.identity.api_key_id": 7,
        "trace.metadata.request.request_id": "req-1",
    }


def test_a_failure_has_its_error_and_no_content_where_none_is_known() -> None:
    (span,) = spans(status=502, error_type="provider_unavailable", input=None, output=None)

    assert span["status"] == {"code": 2, "message": "provider_unavailable"}
    attributes = read_attributes(span)
    assert attributes["error.type"] == "provider_unavailable"
    assert not [name for name in attributes if name.endswith("messages")]
