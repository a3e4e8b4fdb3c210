"""Spans as plain values. Making them needs no part of OpenTelemetry, which is loaded only
where traces are on."""

import os
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

Attribute = str | bool | int | float | Sequence[str]
SpanKind = Literal["internal", "server", "client", "producer", "consumer"]
NS_PER_S: Final = 1_000_000_000


class SpanEvent(NamedTuple):
    """Something that happened within a span; `at_ns` counts from 1970."""

    name: str
    at_ns: int
    attributes: Mapping[str, Attribute] = {}


class SpanLink(NamedTuple):
    """Another span that this one has to do with, ids in hexadecimal."""

    trace_id: str
    span_id: str


class Span(NamedTuple):
    """One span that has ended. Ids are hexadecimal, `parent_id` is "" where it has no parent;
    `start_ns` and `end_ns` count from 1970. Attributes of value None are left out."""

    name: str
    kind: SpanKind
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Attribute | None]
    events: Sequence[SpanEvent] = ()
    links: Sequence[SpanLink] = ()
    failed: bool = False
    is_parent_remote: bool = False


def build_trace_id() -> str:
    return os.urandom(16).hex()


def build_span_id() -> str:
    return os.urandom(8).hex()


def is_sampled(trace_id: str, share: float) -> bool:
    """Whether a trace belongs to the share that is sampled. Every gateway, and whoever else decides
    by the trace's id as OpenTelemetry does, comes to the same."""
    return int(trace_id[16:], 16) < round(share * 2**64)
