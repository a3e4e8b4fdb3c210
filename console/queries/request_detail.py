"""Everything that is known of one request: how it went, why, what it cost, what was said."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, NamedTuple

from django.db.models import Q
from django.http import Http404

from accounts.models import LedgerEntry
from accounts.roles import Action
from console.queries.explanation import (
    Candidate,
    Explanation,
    describe_failure,
    describe_in_a_sentence,
    list_candidates,
    read_explanation,
    shorten_provider,
)
from console.queries.guardrails import GuardrailAction, list_guardrail_actions
from console.scope import Scope, widen_scope
from console.words import format_count, format_money, format_ms, format_price, format_tags
from gateway.http.jsonio import JsonObject, dumps, loads
from gateway.sealing import unseal_bytes
from routing.admin.trace_table import RULES, list_facts
from routing.entities.exchange import CANCELLED
from routing.entities.prices import PriceError, Prices
from routing.history.contents import PURPOSE
from routing.history.models import GenerationContent
from routing.metering.models import Generation

_TEXT_CHARS_MAX: Final = 20_000
_MS: Final = timedelta(milliseconds=1)


class Stage(NamedTuple):
    """A bar of the waterfall, in milliseconds since the request came in."""

    label: str
    start_ms: float
    length_ms: float
    tone: str
    note: str


class PricedTokens(NamedTuple):
    """Tokens of one kind with the price of a million of them."""

    kind: str
    tokens: str
    price: str


class BrokenPart(NamedTuple):
    """A part of an answer that its endpoint broke off, and its cost at the provider (nano-USD)."""

    endpoint: str
    model: str
    tokens_prompt: int
    tokens_completion: int
    cost_nano: int


class Message(NamedTuple):
    """A message of the prompt, or the answer."""

    role: str
    text: str


@dataclass(frozen=True)
class RequestDetail:
    """A record and what belongs to it."""

    record: Generation
    scope: Scope

    @cached_property
    def explanation(self) -> Explanation:
        return read_explanation(self.record.trace)

    @property
    def sentence(self) -> str:
        fields = ("attempts", "status", "charge_nano", "cancelled", "lost", "streamed")
        record = {name: getattr(self.record, name) for name in fields}
        return describe_in_a_sentence(record, self.explanation.rule)

    @cached_property
    def candidates(self) -> list[Candidate]:
        return list_candidates(self.explanation)

    @property
    def rule(self) -> str:
        return RULES.get(self.explanation.rule, self.explanation.rule)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What the request asked for and was held to, in words."""
        return list(list_facts(self.explanation.facts)) if self.explanation.facts else []

    @cached_property
    def stages(self) -> list[Stage]:
        settled = [entry.created_at for entry in self.entries if entry.kind == "usage"]
        return list_stages(self.record, settled[0] if settled else None)

    @property
    def total_ms(self) -> float:
        return max((stage.start_ms + stage.length_ms for stage in self.stages), default=0)

    @cached_property
    def entries(self) -> list[LedgerEntry]:
        account, pk, start = self.record.account_id, self.record.pk, self.record.created_at
        # Each kind as the index that has it would be asked.
        reversed_later = Q(account_id=account, created_at__gte=start, kind="usage_reversal")
        rows = LedgerEntry.objects.filter(
            Q(kind="usage", generation_id=pk)
            | Q(source="byok_fee", source_ref=pk)
            | (reversed_later & Q(generation_id=pk))
        )
        return list(rows.order_by("created_at", "pk"))

    @property
    def returned_nano(self) -> int:
        return max(0, self.record.hold_nano - self.record.charge_nano)

    @cached_property
    def tokens(self) -> list[PricedTokens]:
        return list_priced_tokens(self.record)

    @property
    def broken_parts(self) -> list[BrokenPart]:
        """The beginnings of the answer that other endpoints broke off."""
        return [
            BrokenPart(
                *(each["endpoint"], each["model"], each["tokens_prompt"]),
                *(each["tokens_completion"], each["cost_nano"]),
            )
            for each in self.record.detail.get("rescued_from", ())
        ]

    @cached_property
    def guarding(self) -> list[GuardrailAction]:
        return list_guardrail_actions(self.explanation.facts, self.scope)

    @property
    def headers(self) -> list[tuple[str, str]]:
        """What the caller said beside the body, and by which ids it is found elsewhere."""
        detail = self.record.detail
        pairs = {
            "Generation id": self.record.pk,
            "Request id": detail.get("request_id"),
            "Id at the provider": self.record.upstream_id,
            "Session": self.record.session_id,
            "End user": self.record.external_user,
            "Tags": format_tags(detail.get("tags")),
            "App": detail.get("app_title") or detail.get("http_referer"),
            "Client": detail.get("user_agent"),
            "Format": detail.get("format"),
            "Service tier": self.record.service_tier,
            "Finish reason": self.record.finish_reason,
            "Preset": self.record.preset_id,
            "External guards": ", ".join(map(_describe_check, detail.get("guards", ()))),
            "Schema of the answer": detail.get("schema", {}).get("result"),
        }
        return [(name, str(value)) for name, value in pairs.items() if value]

    @property
    def may_read_content(self) -> bool:
        """Prompts are for the account's admins and operators, as in the API."""
        return self.scope.allows(Action.CONTENTS)

    @cached_property
    def messages(self) -> list[Message]:
        return read_messages(self.record) if self.may_read_content else []


def _describe_check(check: JsonObject) -> str:
    """What an external guard said, how long that took, and which generation it is on the books."""
    cost = f", {check['generation_id']}" if "generation_id" in check else ""
    time = format_ms(check["latency_ms"])
    return f"{check['guard']} of {check['on']}: {check['result']} ({time}{cost})"


def find_request(seen: Scope, generation_id: str) -> RequestDetail | None:
    """The request of that id, if the person may see it."""
    rows = Generation.objects.select_related("account", "workspace", "api_key__creator")
    record = rows.filter(pk=generation_id).first()
    if record is None:
        return None
    try:
        scope = widen_scope(seen, record.account_id)
    except Http404:
        return None
    is_covered = scope.covers(
        account_id=record.account_id,
        workspace_id=record.workspace_id,
        creator_id=record.api_key.creator_id,
    )
    return RequestDetail(record, scope) if is_covered else None


_PREPARED: Final = (
    ("plan_us", "Plan", "limits checked, providers put in order"),
    ("hold_us", "Hold", "the most it may cost was set aside"),
)


def list_stages(record: Generation, settled_at: datetime | None = None) -> list[Stage]:
    """Plan and hold, the attempts one after the other, and the rest of the answer behind its first
    token. Then what was left to do until its charge went to the ledger. Requests of older versions
    say nothing of the first two."""
    stages, at = [], 0.0
    for name, label, note in _PREPARED:
        if length_us := record.detail.get(name):
            stages.append(Stage(label, at, length_us / 1000, "plain", note))
            at += length_us / 1000
    answered_from = began = at
    for attempt in record.attempts:
        if (after_ms := attempt.get("hedged_after")) is None:
            began = at
        else:
            # Beside an earlier one.
            at = began + after_ms
        for stage in _list_attempt_stages(attempt, at):
            stages.append(stage)
            at += stage.length_ms
    rest = (record.generation_time_ms or 0) - (at - answered_from)
    if rest > 0:
        note = f"{format_count(record.tokens_completion)} tokens in {format_ms(rest)}"
        stages.append(Stage("Rest of the answer", at, rest, "plain", note))
        at += rest
    if settled_at is not None:
        planned_ms = record.detail.get("plan_us", 0) / 1000
        booked = (settled_at - record.created_at) / _MS + planned_ms
        note = f"{format_money(record.charge_nano)} charged, the rest of the hold freed"
        stages.append(Stage("Settle", at, max(0, booked - at), "plain", note))
    return stages


def _list_attempt_stages(attempt: Mapping[str, Any], at: float) -> Iterator[Stage]:
    """Until its first token or its failure, and of an answer that broke off the rest as well."""
    took, broke_ms = float(attempt.get("latency") or 0), attempt.get("broke_off_ms")
    is_good = attempt.get("error_type") is None and attempt.get("status") == 200
    name = shorten_provider(attempt.get("provider_name"))
    if attempt.get("error_type") == CANCELLED:
        yield Stage(name, at, took, "plain", f"cancelled after {format_ms(took)}")
    elif is_good or broke_ms is not None:
        yield Stage(name, at, took, "good", f"first token after {format_ms(took)}")
    else:
        yield Stage(name, at, took, "bad", f"{describe_failure(attempt)} after {format_ms(took)}")
    if broke_ms is not None:
        note = f"broke off after {format_ms(broke_ms)}"
        yield Stage(name, at + took, max(0.0, broke_ms - took), "bad", note)


def list_priced_tokens(record: Generation) -> list[PricedTokens]:
    """What is priced, by type, with the prices that were pinned when the request came; as
    `routing.metering.cost` adds it up."""
    detail = record.detail
    try:
        prices = Prices.parse(detail.get("pricing"))
        prices = prices.effective(record.tokens_prompt, record.created_at)
    except PriceError:
        prices = None
    prompt = (
        ("Prompt, from the provider's cache", record.tokens_cached, "input_cache_read"),
        ("Prompt, written to its cache", detail.get("cache_write_tokens", 0), "input_cache_write"),
        ("Audio of the prompt", detail.get("prompt_audio_tokens", 0), "audio"),
    )
    completion = (
        ("Reasoning", record.tokens_reasoning, "internal_reasoning"),
        ("Audio of the answer", detail.get("completion_audio_tokens", 0), "audio_output"),
        ("Images of the answer", detail.get("completion_images", 0), "image_output"),
    )
    rows = list(_split_tokens("Prompt", record.tokens_prompt, "prompt", prompt, prices))
    rows += _split_tokens("Answer", record.tokens_completion, "completion", completion, prices)
    if prices is None:
        return rows
    pieces = (
        ("Request", 1, prices.request),
        ("Images of the prompt", detail.get("images", 0), prices.image),
        ("Web searches", detail.get("web_searches", 0), prices.web_search),
    )
    for kind, count, price in pieces:
        if count and price:
            rows.append(PricedTokens(kind, format_count(count), f"${price.normalize():f} each"))
    if prices.discount:
        less = f"{(100 * prices.discount).normalize():f} % less"
        rows.append(PricedTokens("Discount", "", less))
    return rows


_Kinds = Sequence[tuple[str, int, str]]


def _split_tokens(
    label: str, tokens: int, plain: str, kinds: _Kinds, prices: Prices | None
) -> Iterator[PricedTokens]:
    """Kinds without a price of their own are at the plain one. Tokens that were written to the
    cache and read from it are both paid, so that the plain ones are never fewer than none."""
    rest = tokens - sum(count for _, count, _ in kinds)
    for kind, count, name in ((label, max(0, rest), plain), *kinds):
        price = getattr(prices, name, None)
        if price is None:
            price = getattr(prices, plain, None)
        if count or name == plain:
            yield PricedTokens(kind, format_count(count), format_price(price))


def read_content(record: Generation) -> Any:
    """What was logged, as `/generation/content` gives it; None where nothing was."""
    row = GenerationContent.objects.filter(pk=record.pk, account_id=record.account_id).first()
    if row is None:
        return None
    packed = unseal_bytes(bytes(row.sealed), purpose=PURPOSE, row=row.pk)
    return loads(zlib.decompress(packed))


def read_messages(record: Generation) -> list[Message]:
    """Prompt and answer where they were logged; long texts are cut."""
    content = read_content(record)
    if content is None:
        return []
    messages = [
        Message(str(each.get("role", "")), read_text(each.get("content")))
        for each in content["input"]["messages"]
    ]
    output = content["output"]
    parts = {"reasoning": output.get("reasoning"), "answer": output.get("completion")}
    messages += [Message(role, text[:_TEXT_CHARS_MAX]) for role, text in parts.items() if text]
    if calls := output.get("tool_calls"):
        messages.append(Message("tool calls", read_text(calls)))
    return messages


def read_text(content: Any) -> str:
    """The text of a message, or what it has instead as JSON; long ones are cut."""
    text = join_text_parts(content)
    return (dumps(content).decode() if text is None else text)[:_TEXT_CHARS_MAX]


def join_text_parts(content: Any) -> str | None:
    """The text of a message; None where it is more than text."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, Mapping) and isinstance(part.get("text"), str) for part in content
    ):
        return "\n".join(part["text"] for part in content)
    return None
