"""What a guardrail, kept or tried, does to a text and would have done to yesterday's requests."""

import zlib
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from django.db.models import Q, QuerySet

from accounts.guard_rules import NO_RULES, GuardrailFilter, build_entry, narrow_rules
from accounts.models import ApiKey, Guardrail, GuardrailKey, GuardrailMember
from console.queries.guardrails import list_filters
from console.queries.sums import SumQuery, fetch_sums
from console.queries.workspaces import list_led_workspaces
from console.scope import Scope
from console.words import Badge
from gateway.database.db import let_others_run
from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject, loads
from gateway.sealing import UnsealError, unseal_bytes
from routing.catalogue.snapshot import catalogue
from routing.formats.chat.request import parse_chat
from routing.guarding.filters import Filtered, apply_filters
from routing.history.contents import PURPOSE
from routing.history.dialect import dialect
from routing.history.metrics import METRICS
from routing.history.models import GenerationContent
from routing.history.spans import DAY, hour_of
from routing.history.statement import QueryCondition
from routing.metering.models import Generation
from routing.selection.filters import policy_tests
from routing.selection.resolution import apply_guardrails
from routing.selection.types import NO_POLICY
from routing.what_if.comparison import Comparison
from routing.what_if.period import Period, Rules, replay_period

TEXT_CHARS_MAX: Final = 20_000
# A replay reads the newest kept prompts of a day, as far as a page may take.
_PROMPTS_MAX: Final = 100
_PROMPT_CHARS_MAX: Final = 8_000
_AT_ONCE: Final = 10
# Requests that are planned again, each in a third of a millisecond.
_ROUTES_MAX: Final = 500


class TextTrial(NamedTuple):
    """What happens to a text: a verdict, why in words, and the text as it would go on."""

    verdict: Badge
    why: str
    text: str


def try_text(guardrail: Guardrail, text: str) -> TextTrial:
    """The text as if a user had said it."""
    try:
        done = filter_messages(guardrail, [{"role": "user", "content": text}])
    except GatewayError as error:
        return TextTrial(Badge("bad", "refused"), error.text, "")
    if done.refusal is not None:
        return TextTrial(Badge("bad", "blocked"), done.refusal().text, "")
    summaries = "; ".join(stage["summary"] for stage in done.stages)
    after = done.chat.body["messages"][0]["content"]
    if after != text:
        return TextTrial(Badge("warn", "redacted"), summaries, after)
    if done.stages:
        return TextTrial(Badge("plain", "noted"), summaries, after)
    return TextTrial(Badge("good", "goes through"), "No filter found anything.", after)


def filter_messages(guardrail: Guardrail, messages: list[JsonObject]) -> Filtered:
    filters = tuple(
        GuardrailFilter(each, "workspace", guardrail.pk)
        for each in build_entry(guardrail, "workspace").filters
    )
    chat = parse_chat({"model": "any/model", "messages": messages}, session_header=None)
    return apply_filters(chat, filters, guardrail.workspace.account_id)


# --- Yesterday ------------------------------------------------------------------------------------


@dataclass
class Replay:
    """`read` prompts were kept and looked at, of which filters blocked, redacted or noted some.

    `requests` were asked in all, of which `elsewhere` went where it does not allow, by `places`.
    `unjudged` ones went to no endpoint of today's catalogue. `routes` compares the newest of them
    with how they would have gone; None where that was not asked or there was none.
    """

    read: int = 0
    blocked: int = 0
    redacted: int = 0
    noted: int = 0
    requests: int = 0
    elsewhere: int = 0
    unjudged: int = 0
    found: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    routes: Comparison | None = None


def replay_yesterday(
    guardrail: Guardrail, scope: Scope, now: datetime, *, reads_texts: bool, routes: bool = False
) -> Replay:
    """The last 24 full hours and the one that goes on, as far as the person leads what it governs.
    A new one governs nobody yet, and is tried on all of its workspace. Prompts are looked at for
    who may read them: how many of them match a filter tells what stands in them."""
    start = hour_of(now) - DAY
    replay = Replay()
    keys = None
    if not (guardrail.is_default or guardrail._state.adding):
        # Its keys and those of its members, in whichever workspace; deleted ones too.
        own = GuardrailKey.objects.filter(guardrail=guardrail).values("api_key")
        people = GuardrailMember.objects.filter(guardrail=guardrail).values("membership__user")
        governed = ApiKey.objects.filter(
            Q(pk__in=own) | Q(creator__in=people), account=scope.account
        )
        if not scope.rules_account:
            governed = governed.filter(workspace__in=list_led_workspaces(scope))
        keys = list(governed.values_list("pk", flat=True))
        if not keys:
            return replay
    if reads_texts:
        _replay_texts(guardrail, keys, start, replay)
    _replay_places(guardrail, keys, start, now, replay)
    if not routes:
        return replay
    asked = _select_requests(guardrail, keys, start)
    rules = Rules(guardrail=build_entry(guardrail, "workspace"))
    found = replay_period(Period(start, now, asked, _ROUTES_MAX), rules, catalogue.current())
    replay.routes = found if found.compared or found.refused else None
    return replay


def _select_requests(
    guardrail: Guardrail, keys: list[int] | None, start: datetime
) -> QuerySet[Generation]:
    account_id = guardrail.workspace.account_id
    asked = Generation.objects.filter(account_id=account_id, created_at__gte=start)
    if keys is None:
        return asked.filter(workspace=guardrail.workspace_id)
    return asked.filter(api_key__in=keys)


def _replay_texts(
    guardrail: Guardrail, keys: list[int] | None, start: datetime, replay: Replay
) -> None:
    if not list_filters(guardrail):
        return
    account_id = guardrail.workspace.account_id
    asked = _select_requests(guardrail, keys, start)
    newest = asked.order_by("-created_at", "-pk").values_list("pk", flat=True)[: 5 * _PROMPTS_MAX]
    rows = GenerationContent.objects.filter(pk__in=list(newest), account_id=account_id)
    for number, row in enumerate(rows.order_by("-created_at")[:_PROMPTS_MAX]):
        if number % _AT_ONCE == 0:
            let_others_run()
        messages = _read_messages(row)
        if messages is None:
            continue
        try:
            done = filter_messages(guardrail, messages)
        except GatewayError:
            continue
        replay.read += 1
        actions = {stage["data"]["action"] for stage in done.stages}
        if done.refusal is not None:
            replay.blocked += 1
        elif "redacted" in actions:
            replay.redacted += 1
        elif actions:
            replay.noted += 1
        for stage in done.stages:
            replay.found.update(stage["data"]["detected"])


def _read_messages(row: GenerationContent) -> list[JsonObject] | None:
    """The prompt, if it is a short one of plain messages."""
    try:
        content = loads(
            zlib.decompress(unseal_bytes(bytes(row.sealed), purpose=PURPOSE, row=row.pk))
        )
    except (UnsealError, zlib.error):
        return None
    messages: list[JsonObject] = content["input"]["messages"]
    length = sum(len(str(each.get("content"))) for each in messages)
    return messages if length <= _PROMPT_CHARS_MAX else None


def _replay_places(
    guardrail: Guardrail, keys: list[int] | None, start: datetime, now: datetime, replay: Replay
) -> None:
    """By the endpoint that was asked last, which requests are tested on as routing tests it."""
    if keys is None:
        column, values = "workspace_id", [dialect().uuid(guardrail.workspace_id)]
    else:
        column, values = "api_key_id", keys
    among = f"{{column}} IN ({', '.join(['%s'] * len(values))})"
    query = SumQuery(
        guardrail.workspace.account_id,
        start,
        (METRICS["request_count"],),
        groups=("model", "endpoint_tag"),
        conditions=(QueryCondition(column, among, tuple(values)),),
    )
    rules = narrow_rules(NO_RULES, build_entry(guardrail, "workspace"))
    tests = policy_tests(apply_guardrails(NO_POLICY, rules))
    for (model, tag), (count,) in fetch_sums(query, now).items():
        replay.requests += count
        entry = catalogue.current().models.get(model)
        endpoints = entry.endpoints if entry else ()
        endpoint = next((each for each in endpoints if each.tag == tag), None)
        if endpoint is None:
            replay.unjudged += count
        elif not all(test(endpoint) for test in tests):
            replay.elsewhere += count
            replay.places[f"{model} at {endpoint.provider.name}"] += count
