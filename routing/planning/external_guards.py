"""External guards at work: moderations of a provider, and decisions of a model.

It is the caller who asks for a decision here. It is a generation of its own on the caller's key,
with its own hold and charge. Moderations cost nothing.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

from gevent import GreenletExit

from accounts.external_guards import Side
from accounts.guard_rules import PlacedGuard
from gateway.http.errors import GatewayError, MalformedJson, PaymentRequired, Unavailable
from gateway.http.jsonio import JsonObject, dumps, loads
from gateway.outbound.errors import OutboundError
from routing.catalogue.snapshot import catalogue
from routing.entities.ids import generation_id
from routing.formats.chat.request import ChatInvalid
from routing.formats.decisions import DECISIONS, read_questions
from routing.guarding.output_guard import OutputGuard
from routing.planning.admission_errors import refuse_early
from routing.planning.submodel_calls import list_data_rules, plan_inner_request
from routing.plugins.moderation import Flagged, list_texts
from routing.serving.decisions.answer import answer_decisions
from routing.serving.decisions.plan import DecisionPlan
from routing.serving.request import process
from routing.serving.request.context import RequestContext, RequestProgress

# Of longer texts a guard says nothing, as one that does not answer.
TEXT_CHARS_MAX: Final = 200_000
_NAME: Final = "unsafe"
_PATH: Final = "/moderations"
_ANSWER_BYTES_MAX: Final = 1 << 20


class GuardFailed(Exception):
    """The guard says nothing; the text is the reason."""


def start_external_guards(progress: RequestProgress, placed: Sequence[PlacedGuard]) -> None:
    """Ask the guards placed on the request, which is refused where one says so, and have those of
    its answer asked. Raises `GatewayError` for a request that is refused anyway."""
    context = progress.context
    if context.refusal is not None:
        return
    refuse_early(progress)
    guards = ExternalGuards(context, placed)
    progress.guard_checks = guards.checks
    refusal = guards.find_refusal("input", list_texts(context.chat))
    progress.stages += guards.take_stages()
    if refusal is not None:
        progress.context = context._replace(refusal=refusal)
    elif guards.acts or guards.watches:
        if progress.output_guard is None:
            progress.output_guard = OutputGuard((), context.chat, context.caller.account_id)
        progress.output_guard.add_external(guards)


class Verdict(NamedTuple):
    """What a guard found, in its words, the text that it was in, and what else it answered."""

    detected: list[str]
    text: str
    details: JsonObject


class ExternalGuards:
    """Those of one request. `checks` has the result of each look, for its record; `stages` has
    those that found something, or that failed."""

    def __init__(self, context: RequestContext, guards: Sequence[PlacedGuard]) -> None:
        self._context, self._guards = context, guards
        self.checks: list[JsonObject] = []
        self.stages: list[JsonObject] = []
        outputs = [each.guard for each in guards if each.guard.looks_at("output")]
        # Of answers: whether any may keep one back, and whether any only looks.
        self.acts = any(each.acts for each in outputs)
        self.watches = any(not each.acts for each in outputs)

    def find_refusal(self, side: Side, texts: Sequence[str], *, acting: bool | None = None) -> Any:
        """What makes the error of what is not to go on; None where it may. With `acting` only those
        guards are asked that keep something back, or only the others."""
        nonempty = [text for text in texts if text.strip()]
        for placed in self._guards:
            guard = placed.guard
            if (
                not nonempty
                or not guard.looks_at(side)
                or (acting is not None and acting != guard.acts)
            ):
                continue
            refusal = self._look(placed, side, nonempty)
            if refusal is not None:
                return refusal
        return None

    def take_stages(self) -> list[JsonObject]:
        stages, self.stages = self.stages, []
        return stages

    def _look(self, placed: PlacedGuard, side: Side, texts: Sequence[str]) -> Any:
        guard, began = placed.guard, process.now()
        verdict, failure, unpaid = Verdict([], "", {}), "", None
        until = min(self._context.deadline, began + guard.timeout_s)
        try:
            if sum(map(len, texts)) > TEXT_CHARS_MAX:
                raise GuardFailed("too long")
            ask = self._moderate if guard.kind == "moderation" else self._decide
            verdict = ask(placed, texts, until)
        except GuardFailed as error:
            failure = str(error)
        except GatewayError as error:
            if isinstance(error.__cause__, GreenletExit):
                # The worker is stopping, and says nothing of the guard.
                raise
            failure = error.text
            if side == "input" and isinstance(error, PaymentRequired):
                unpaid = error
        except OutboundError as error:
            failure = type(error).__name__
        is_found = bool(verdict.detected) or bool(failure and guard.blocks and not guard.fails_open)
        result = "passed"
        if is_found and guard.blocks:
            result = "would be blocked" if guard.shadow else "blocked"
        elif is_found:
            result = "flagged"
        elif failure:
            result = "failed"
        check: JsonObject = {
            "guard": guard.kind,
            "on": side,
            "result": result,
            "latency_ms": round((process.now() - began) * 1000),
            **verdict.details,
        }
        if failure:
            check["failure"] = failure[:200]
        self.checks.append(check)
        if result != "passed":
            self.stages.append(_build_stage(placed, check, verdict.detected or ["no answer"]))
        if not (is_found and guard.acts):
            return None
        if unpaid is not None:
            return lambda: unpaid
        if failure:
            return partial(Unavailable, "A guard of this request does not answer")
        return partial(Flagged, verdict.detected, verdict.text)

    def _moderate(self, placed: PlacedGuard, texts: Sequence[str], until: float) -> Verdict:
        """Raises `GuardFailed`, `OutboundError`."""
        guard = placed.guard
        provider = catalogue.current().providers.get(guard.provider)
        if provider is None:
            raise GuardFailed(f"no provider {guard.provider}")
        secret = provider.credentials[0].secret if provider.credentials else provider.credential
        headers = [("Content-Type", "application/json"), ("Accept", "application/json")]
        if secret:
            headers.append(("Authorization", f"Bearer {secret}"))
        reply = process.http_client().send(
            process.origin_of(provider.base_url),
            method="POST",
            path=_PATH,
            headers=headers,
            body=dumps({"model": guard.model, "input": list(texts)}),
            limits=replace(process.limits_of(provider), body_bytes_max=_ANSWER_BYTES_MAX),
            deadline=until,
        )
        with reply:
            if reply.status != 200:
                raise GuardFailed(f"status {reply.status}")
            raw = reply.read_all()
        try:
            results = loads(raw)["results"]
            for text, result in zip(texts, results, strict=True):
                if detected := _list_detected(result, guard.thresholds):
                    return Verdict(detected, text, {"detected": detected})
        except (MalformedJson, KeyError, TypeError, ValueError, AttributeError):
            raise GuardFailed("no moderation") from None
        return Verdict([], "", {})

    def _decide(self, placed: PlacedGuard, texts: Sequence[str], until: float) -> Verdict:
        """Raises `GuardFailed`, `GatewayError`."""
        guard, asking = placed.guard, self._context
        question = {"type": "noul", "instructions": guard.question}
        body: JsonObject = {"model": guard.model, "state": "\n\n".join(texts)}
        body |= {"questions": {_NAME: question}, "provider": list_data_rules(asking)}
        if asking.chat.user:
            body["user"] = asking.chat.user
        try:
            chat = DECISIONS.parse(body, session_header=None, models_max=1)
        except ChatInvalid as error:
            raise GuardFailed(str(error)) from None
        _, context = plan_inner_request(_without_guards(asking), DECISIONS, chat, until)
        context = context._replace(
            generation_id=generation_id(DECISIONS.id_prefix), created_at=datetime.now(UTC)
        )
        if context.refusal is not None:
            raise context.refusal()
        plan = DecisionPlan(body, context.choice.models)
        progress = RequestProgress(context)
        progress.demands_of = plan.demands
        answer = loads(answer_decisions(progress, plan, read_questions(body)))
        score: float = answer["answers"][_NAME]["noul"]
        model = next((each for each in context.choice.models if each.id == answer["model"]), None)
        details = {
            "score": round(score, 6),
            "model": answer["model"],
            "is_calibrated": model is not None and model.decisions_temperature is not None,
            "generation_id": context.generation_id,
            "cost_usd": answer["usage"]["cost"],
        }
        return Verdict([_NAME] if score >= guard.threshold else [], texts[-1], details)


def _list_detected(result: Any, thresholds: Any) -> list[str]:
    """The categories that a moderation finds, the worst first."""
    scores = result["category_scores"] if thresholds else {}
    if thresholds:
        found = [name for name, least in thresholds.items() if scores.get(name, 0.0) >= least]
        return sorted(found, key=lambda name: -scores[name])
    if not result["flagged"]:
        return []
    return [name for name, is_so in result["categories"].items() if is_so] or ["flagged"]


def _without_guards(asking: RequestContext) -> RequestContext:
    """The asker without what would look at the question again. Providers, regions and data rules
    stay; which model looks is the guardrail's own word."""
    guard = asking.caller.guard
    assert guard is not None
    rules = guard.rules._replace(allowed_models=None, ignored_models=frozenset())
    free = guard._replace(rules=rules, filters=(), output_filters=(), external_guards=())
    return asking._replace(caller=replace(asking.caller, guard=free))


def _build_stage(placed: PlacedGuard, check: JsonObject, detected: list[str]) -> JsonObject:
    data = {name: check[name] for name in ("on", "latency_ms", "score", "failure") if name in check}
    stage: JsonObject = {
        "type": "guardrail",
        "name": f"{check['guard']}_guard",
        "guardrail_id": None if placed.guardrail_id is None else str(placed.guardrail_id),
        "guardrail_scope": placed.scope,
        "summary": f"{check['result']}: {', '.join(detected)}",
        "data": {"action": check["result"], "detected": detected, "matches": len(detected), **data},
    }
    return stage | ({"cost_usd": check["cost_usd"]} if "cost_usd" in check else {})
