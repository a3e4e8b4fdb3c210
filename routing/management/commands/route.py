"""route: which endpoints would a request be tried at, in which order, and why not at the others?"""

import random
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from uuid import UUID

from django.core.management.base import CommandParser

from accounts.byok import ByokEntry
from accounts.caller import Caller, read_caller
from gateway.commands import JsonCommand, Refused
from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from routing.formats.chat.request import ChatRequest
from routing.management.chat_argument import build_chat, json_object
from routing.planning.admission_errors import no_model_error
from routing.planning.candidates import ResolvedRequest, resolve, state_for
from routing.plugins.registry import add_plugins
from routing.selection.replay import TraceRow, read_rows
from routing.selection.select import select
from routing.selection.trace import build_trace, freeze_state
from routing.selection.types import EndpointState, Plan
from routing.serving.attempts.own_credentials import find_entry
from routing.statistics import observation, peer_sync

# Nobody in particular: an account without lists, a workspace without defaults.
_NOBODY = Caller(
    key_id=0,
    key_hash="",
    management=False,
    account_id=UUID(int=0),
    workspace_id=None,
    creator_id=None,
    creator_left=False,
    disabled=False,
    expires_at=None,
    default_text_model="",
)
# What a trace calls the figures of an endpoint, and what they are called here.
_FIGURES = {
    "ttft": "first_token_s",
    "tps": "tokens_per_s",
    "tools": "tool_success",
    "up": "uptime",
    "n": "calls",
}


class _RoutedRequest(NamedTuple):
    resolved: ResolvedRequest
    state: EndpointState
    plan: Plan
    own: tuple[ByokEntry, ...]


class Command(JsonCommand):
    help = (
        "Print the endpoints that a chat request would be tried at, in order, without calling any. "
        "It goes by the statistics that web processes share through the shared cache; without "
        "one every endpoint counts as stable and nothing is known of its speed. --explain adds "
        "every endpoint with its verdict, price and figures."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--model", required=True, help="model id, alias or router")
        parser.add_argument("--provider-json", help="the request's provider object")
        parser.add_argument("--body-json", default="{}", help="further fields of the request body")
        parser.add_argument("--session", help="the request's session_id")
        parser.add_argument(
            "--key-hash", help="route as for this API key: its lists, defaults and own credentials"
        )
        parser.add_argument("--explain", action="store_true", help="say of each endpoint why")
        parser.add_argument("--seed", type=int, help="fixes the draw of load balancing")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        caller, key_hash, seed = _NOBODY, options["key_hash"], options["seed"]
        if key_hash is not None:
            owner = read_caller(key_hash)
            if owner is None:
                raise Refused("There is no key with that hash")
            caller = owner
        body = json_object(options["body_json"], "--body-json") | {"model": options["model"]}
        if options["provider_json"] is not None:
            body["provider"] = json_object(options["provider_json"], "--provider-json")
        if options["session"] is not None:
            body["session_id"] = options["session"]
        dice = None if seed is None else random.Random(seed).random  # noqa: S311 - Load balancing; guards nothing.
        try:
            routed = _route_request(build_chat(body, caller), caller, dice)
        except GatewayError as error:
            step = error.metadata.get("failed_routing_step")
            text = f"{error.text}; nothing is left after: {step}" if step else error.text
            raise Refused(text) from error
        return _describe_plan(routed, explain=options["explain"]), 0

    def lines(self, result: JsonObject) -> Iterable[str]:
        yield f"strategy {result['strategy']}, rule {result['rule']}"
        if result["failed_step"]:
            yield f"nothing is left after: {result['failed_step']}"
        elif not result["order"]:
            yield "no endpoint can be asked: none is there, or all are down or without a price"
        for number, each in enumerate(result["order"], 1):
            own = f" with {each['credential']}" if "credential" in each else ""
            yield f"{number}. {each['model']} at {each['tag']} ({each['provider']}){own}"
        for each in result.get("endpoints", ()):
            facts = (f"{name} {value}" for name, value in each.items() if name not in _NAMES)
            yield f"{each['model']} at {each['tag']}: {'; '.join(facts)}"


_NAMES = ("model", "tag")


def _route_request(
    chat: ChatRequest, caller: Caller, dice: Callable[[], float] | None
) -> _RoutedRequest:
    """As the pipeline does it, but that no probe is taken: nothing is going to be sent."""
    peer_sync.peer_sync().receive()
    observation.refresh()
    chat, _ = add_plugins(chat, caller.default_text_model)
    resolved = resolve(chat, caller, dice=dice)
    references, ask, conversation, resolution, policy = resolved
    if not resolution.models:
        raise no_model_error(references[0], resolution.pool, ask, policy)
    state = state_for(conversation, resolution.models, policy, caller.byok)
    plan = select(resolution.models, ask, policy, state, random=dice or conversation.random())
    return _RoutedRequest(resolved, freeze_state(plan, state), plan, caller.byok)


def _describe_plan(routed: _RoutedRequest, *, explain: bool) -> JsonObject:
    plan, resolved = routed.plan, routed.resolved
    resolution = resolved.resolution
    order = []
    for candidate in plan.candidates:
        endpoint, credential = candidate.endpoint, find_entry(candidate, routed.own)
        line = {
            "model": endpoint.model_id,
            "tag": endpoint.tag,
            "provider": endpoint.provider.name,
        }
        if credential is not None:
            # The team's own that it would be tried with.
            line["credential"] = credential.label
        order.append(line)
    result: JsonObject = {
        "order": order,
        "strategy": resolution.strategy,
        "rule": plan.rule,
        "failed_step": plan.failed_step,
    }
    trace = build_trace(
        plan,
        resolved.ask,
        resolved.policy,
        routed.state,
        models=[model.id for model in resolution.models],
        requested=resolved.references,
        strategy=resolution.strategy,
    )
    rows = list(read_rows(trace))
    result["removed"] = [
        {"model": row.model, "tag": row.tag, "step": row.why} for row in rows if row.place is None
    ]
    if "last" in trace:
        result["last"] = trace["last"]
    if "stay" in trace:
        result["stay"] = trace["stay"]
    if explain:
        result |= {"models": trace["models"], "request": trace["ask"]}
        result["policy"] = trace.get("policy", {})
        result["endpoints"] = [_explain_row(row) for row in rows]
        result["more"] = trace.get("more", {})
    return result


def _explain_row(row: TraceRow) -> JsonObject:
    """A row of the trace in words, for endpoints that nobody has tried yet."""
    facts: JsonObject = {
        "model": row.model,
        "tag": row.tag,
        "verdict": "removed" if row.place is None else "would be tried",
        "place": None if row.place is None else row.place + 1,
        "step": row.why,
        "usd_per_million": row.usd,
        "weight": row.weight,
        "standing": list(row.health) or None,
        "sticky": row.sticky or None,
        "own_credentials": list(row.byok + row.byok_fallback) or None,
        **{name: row.figures.get(key) for key, name in _FIGURES.items()},
    }
    return {name: value for name, value in facts.items() if value is not None}
