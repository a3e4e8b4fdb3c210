"""What a record keeps of a call beside its columns, for history and analytics to tell.

Only what is there: the detail of most calls has none of it.
"""

from typing import TYPE_CHECKING, Any, Final

from routing.history.client_app import parse_app
from routing.metering.cost import cache_saving_nano, web_search_nano
from routing.selection.model_references import ROUTERS
from routing.serving.request.call import Attempt, Call

if TYPE_CHECKING:
    from routing.serving.request.outcome import Outcome

_GUARDING: Final = "guardrail"


def history_facts(call: Call, last: Attempt | None, outcome: "Outcome") -> dict[str, Any]:
    """By the names that `routing.history.columns` reads; empty values are left out later."""
    app = parse_app(call.app.referer)
    return {
        "app": app.url,
        "origin": app.origin,
        "router": _router(call),
        "guarded": any(stage.get("type") == _GUARDING for stage in call.stages),
        "audio_parts": _audio_parts(call),
        "web_searches": outcome.usage.web_searches,
        **_of_tools(call),
        **(_of_attempt(call, last, outcome) if last is not None else {}),
    }


def own_credential(call: Call, outcome: "Outcome") -> dict[str, str] | None:
    """The last attempt's; or, of a request that was partly on the gateway's, the last that was
    used."""
    last = call.last_attempt
    used = [each.own for each in call.attempts if each.own is not None]
    own = used[-1] if used and outcome.byok_nano else last.own if last else None
    return {"id": own.id, "label": own.label} if own is not None else None


def own_part(call: Call, outcome: "Outcome") -> dict[str, int]:
    """What of cost and charge is of the team's own credentials, where the record's `is_byok` does
    not tell: that says all or nothing."""
    last = call.last_attempt
    is_byok = last is not None and last.own is not None
    if not is_byok and not outcome.byok_nano:
        return {}
    fee_nano = outcome.charged_nano - outcome.shared_nano if outcome.byok_nano else 0
    told_nano = outcome.cost.total_nano if is_byok else 0
    is_told = fee_nano == (outcome.charged_nano if is_byok else 0)
    if is_told and outcome.byok_nano in (0, told_nano):
        return {}
    return {"own_cost_nano": outcome.byok_nano, "own_fee_nano": fee_nano}


def _of_attempt(call: Call, last: Attempt, outcome: "Outcome") -> dict[str, Any]:
    endpoint, usage = last.endpoint, outcome.usage
    slug = endpoint.canonical_slug
    facts: dict[str, Any] = {"permaslug": slug if slug != endpoint.model_id else None}
    if not (usage.cached_tokens or usage.cache_write_tokens or usage.web_searches):
        return facts
    assert endpoint.prices is not None
    prices = endpoint.prices.effective(usage.prompt_tokens, call.created_at)
    searched_nano = web_search_nano(usage, prices)
    charged = outcome.charged_nano > 0
    return facts | {
        "cache_saved_nano": cache_saving_nano(usage, prices) if charged else 0,
        "web_nano": searched_nano if charged else 0,
        "web_cost_nano": searched_nano,
    }


def _of_tools(call: Call) -> dict[str, Any]:
    """What the gateway's own tools did on the web."""
    if call.loop is None:
        return {}
    tally = call.loop.tally
    return {
        "search_results": tally.search_results,
        "search_engine": tally.search_engine,
        "fetches": tally.fetches,
    }


def _router(call: Call) -> str | None:
    """The virtual router that was named and chose the model."""
    if call.strategy not in ROUTERS.values():
        return None
    named = (reference for reference in call.choice.requested if _base(reference) in ROUTERS)
    return next(named, None)


def _base(reference: str) -> str:
    return reference.split(":", 1)[0]


def _audio_parts(call: Call) -> int:
    if "audio" not in call.chat.input_modalities:
        return 0
    contents = (message.get("content") for message in call.chat.body["messages"])
    parts = (part for content in contents if isinstance(content, list) for part in content)
    return sum(part.get("type") == "input_audio" for part in parts)
