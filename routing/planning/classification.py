"""A decision before `router/auto` chooses: of which class is this prompt, and whose model is that?

It is a request for decisions like any other, with its own place in the books. Its account is that
of the request that it is made for. Whatever becomes of it, that request goes on.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from django.http import HttpRequest
from gevent import GreenletExit

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject, loads
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import ModelEntry
from routing.formats.decisions import DECISIONS, read_questions
from routing.formats.plugins import CLASSIFIER_MS
from routing.guarding.filters import apply_filters
from routing.planning.admission_errors import build_refusal
from routing.planning.candidates import CHOSEN_MODEL, find_auto_plugin, resolve
from routing.planning.pipeline import Planning, admit, refuse_by_plugins
from routing.serving.decisions.answer import answer_decisions
from routing.serving.decisions.plan import DecisionPlan
from routing.tools.model_calls import format_transcript

log = logging.getLogger("routing.planning")

# The end of the conversation is what the next answer is about.
_STATE_CHARS_MAX: Final = 8_000
_QUESTION: Final = "class"
_INSTRUCTIONS: Final = "Of which class is the latest request in this conversation?"
_DATA_RULES: Final = ("data_collection", "zdr")


class _Verdict(NamedTuple):
    """The result of a decision; `cost_nano` is what the account was charged for it."""

    generation_id: str
    label: str
    confidence: float
    cost_nano: int


def classify_prompt(
    request: HttpRequest, planning: Planning, *, is_answered: Callable[[], bool]
) -> None:
    """Let the classifier of the request's router choose the model that is tried first. A
    conversation that keeps its model is not classified again. What external guards may keep back is
    not classified at all: they look at it later. Nor is what needs no model, because it
    `is_answered`, or finds none; plugins would have to do their work twice for that to be known.

    Raises the `GatewayError` with which the request would be refused anyway, or that its worker is
    stopping, and no other.
    """
    plugin = find_auto_plugin(planning.chat, planning.asked.resolution)
    classifier = None if plugin is None else plugin.get("classifier")
    if plugin is None or not classifier or planning.asked.conversation.model_id() is not None:
        return
    guard = planning.caller.guard
    guards = () if guard is None else guard.external_guards
    if any(each.guard.acts and each.guard.looks_at("input") for each in guards):
        return
    refuse_by_plugins(planning)
    if planning.refuse_early is not None:
        planning.refuse_early(planning)
    if not planning.plugins and (not planning.asked.resolution.models or is_answered()):
        return
    began, verdict, error_type = time.monotonic(), None, None
    try:
        verdict = _ask(request, planning, classifier)
    except GatewayError as error:
        if isinstance(error.__cause__, GreenletExit):
            raise
        error_type = error.error_type
    except Exception as error:
        # Whatever a classifier's call breaks on, the request itself goes on without it.
        log.exception("A classifier failed", exc_info=error)
        error_type = GatewayError.error_type
    label, is_sure = None, False
    wanted = classifier.get("fallback")
    if verdict is not None:
        label = verdict.label
        is_sure = verdict.confidence >= classifier.get("min_confidence", 0.0)
        wanted = classifier["classes"][label]["model"] if is_sure else wanted
    first = _choose_first(planning, plugin, wanted)
    result = "failed" if verdict is None else "class" if is_sure else "unsure"
    data: JsonObject = {
        "result": result,
        "label": label,
        "confidence": None if verdict is None else verdict.confidence,
        "model": None if first is None else first.id,
        "error_type": error_type,
        "generation_id": None if verdict is None else verdict.generation_id,
        "cost_nano": 0 if verdict is None else verdict.cost_nano,
        "took_ms": round((time.monotonic() - began) * 1000),
    }
    summary = f"{result}: {label or error_type}, {data['model'] or 'as the router chooses'}"
    stage = {"type": "classifier", "name": plugin["id"], "summary": summary, "data": data}
    planning.stages.append(stage)


def _ask(request: HttpRequest, planning: Planning, classifier: JsonObject) -> _Verdict:
    """Raises `GatewayError`."""
    chat, classes = planning.chat, classifier["classes"]
    wishes = chat.body.get("provider") or {}
    provider = {name: wishes[name] for name in _DATA_RULES if wishes.get(name) is not None}
    left_ms = int((planning.deadline - time.monotonic()) * 1000)
    provider["deadline_ms"] = max(1, min(classifier.get("timeout_ms", CLASSIFIER_MS), left_ms))
    question = {
        "type": "choice",
        "instructions": classifier.get("instructions") or _INSTRUCTIONS,
        "criteria": {label: each.get("description") for label, each in classes.items()},
    }
    body: JsonObject = {
        "model": classifier["model"],
        "state": _read_state(planning),
        "questions": {_QUESTION: question},
        "provider": provider,
    }
    if chat.user is not None:
        body["user"] = chat.user
    if chat.metadata or chat.trace:
        # Tags are read from both, and decisions have no metadata, whose tags come first.
        metadata = chat.metadata or {}
        body["trace"] = {**metadata, **(chat.trace or {}), **metadata}
    progress = admit(request, planning.caller, body, format=DECISIONS)
    if progress.context.refusal is not None:
        raise build_refusal(progress)
    original = progress.context.chat.original
    assert original is not None
    plan = DecisionPlan(original, progress.context.choice.models)
    progress.demands_of = plan.demands
    # The caller sent one request, which its rate limits count.
    answer: Any = loads(answer_decisions(progress, plan, read_questions(body)))
    judged, cost_usd = answer["answers"][_QUESTION], answer["usage"]["cost"]
    cost_nano = round(cost_usd * 1_000_000_000)
    generation_id = progress.context.generation_id
    return _Verdict(generation_id, judged["choice"], judged["confidence"], cost_nano)


def _read_state(planning: Planning) -> str:
    """The end of the conversation. Filters see it before it is cut: they know no half secrets."""
    chat, guard = planning.chat, planning.caller.guard
    if guard is not None and guard.filters:
        chat = apply_filters(chat, guard.filters, planning.caller.account_id).chat
    return format_transcript(chat.body["messages"])[-_STATE_CHARS_MAX:]


def _choose_first(planning: Planning, plugin: JsonObject, wanted: str | None) -> ModelEntry | None:
    """Put this model before those that the router chooses. Returns it; None where it is not to be
    had for this request, or none is wanted."""
    if wanted is None:
        return None
    chosen = {**plugin, CHOSEN_MODEL: wanted}
    plugins = [chosen if each is plugin else each for each in planning.chat.plugins]
    chat = replace(planning.chat, plugins=plugins)
    asked = resolve(chat, planning.caller, region=planning.region)
    models = asked.resolution.models
    if not models or models[0] is not catalogue.current().model(wanted):
        return None
    planning.chat, planning.asked = chat, asked
    return models[0]
