"""A model asked by a tool of another one's, on the same way that requests take.

It has a plan and attempts of its own. What it costs is a fee of the answer that it is asked for,
whose hold is raised for it. It has no record of its own.
"""

import time
from typing import Final

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from gateway.live_settings import settings
from routing.formats.caller import CallerFormat
from routing.formats.chat.answer import merge_pieces
from routing.formats.chat.format import CHAT
from routing.formats.chat.request import ChatInvalid, ChatRequest
from routing.planning.pipeline import Planning, plan_request
from routing.serving.admission import rate_limits
from routing.serving.answer.tool_loop import run_tool_loop
from routing.serving.attempts.attempts import Attempts
from routing.serving.request.context import RequestContext, RequestProgress, measure_demand
from routing.serving.request.loop import Loop
from routing.serving.request.process import slots
from routing.tools.interface import ModelAnswer, ToolFailed
from routing.tools.toolbox import Toolbox

# A subagent's fusion's panel is as deep as callers can go.
DEPTH_MAX: Final = 3
_DATA_RULES: Final = ("data_collection", "zdr")


def ask_model(asker: RequestProgress, body: JsonObject) -> ModelAnswer:
    """The answer to a chat body, for a tool of `asker`. Raises `ToolFailed`."""
    if _depth(asker) >= DEPTH_MAX:
        raise ToolFailed("Tools cannot ask models this deep")
    try:
        # As much a request in progress as any other.
        slot = slots.take()
        try:
            assert asker.last_attempt is not None
            request = {"model": asker.last_attempt.endpoint.model_id, **body}
            if rules := list_data_rules(asker.root.context):
                request["provider"] = rules
            models_max = settings.ROUTER_MAX_MODELS
            chat = CHAT.parse(request, session_header=None, models_max=models_max)
            return _answer_submodel(plan_submodel_call(asker, chat))
        finally:
            slot.release()
    except ChatInvalid as error:
        raise ToolFailed(str(error)) from None
    except GatewayError as error:
        raise ToolFailed(error.text) from None


def _answer_submodel(progress: RequestProgress) -> ModelAnswer:
    if progress.context.refusal is not None:
        raise progress.context.refusal()
    limited = rate_limits.count_request(progress)
    if limited is not None:
        raise limited
    loop, root = progress.loop, progress.root
    assert loop is not None
    assert root.loop is not None
    failed = False
    attempts = Attempts(progress)
    try:
        talk = run_tool_loop(progress, attempts)
    except Exception:
        failed = True
        raise
    finally:
        root.loop.submodel_attempts.append(progress.attempts)
        # Before anything that waits: the answer may be settled meanwhile.
        # What failed costs nothing, but for what its own tools did; who leaves pays what was made.
        root.loop.tally.add_fees_of(loop.tally, turns=not failed)
        root.loop.shares.pop(id(progress), None)
        root.loop.shares[id(root)] = root.loop.tally.most_owed
        loop.close()
        attempts.end_probe()
        rate_limits.settle(progress, loop.tally.usage)
    message = merge_pieces(loop.pieces, hides_reasoning=True)
    calls = loop.functions and talk.finish_reason == "tool_calls"
    messages = loop.conversation(progress.context.chat) if calls else None
    return ModelAnswer(message, talk.attempt.endpoint.model_id, messages)


def _depth(progress: RequestProgress) -> int:
    return 0 if progress.parent is None else 1 + _depth(progress.parent)


def plan_submodel_call(asker: RequestProgress, chat: ChatRequest) -> RequestProgress:
    """The request for a model that a tool of another request asks: on that request's account,
    within its time and by its rules. Raises `GatewayError`; one that no endpoint can serve has its
    `refusal`."""
    assert asker.loop is not None
    planning, context = plan_inner_request(asker.context, CHAT, chat, asker.context.deadline)
    loop = planning.loop or Loop(planning.chat, Toolbox(()))
    loop.ask_model = asker.loop.ask_model
    return RequestProgress(context, loop, parent=asker, stages=planning.stages)


def list_data_rules(asking: RequestContext) -> JsonObject:
    """What the caller wants of whoever gets to read the conversation, as `provider` says it."""
    wishes = asking.chat.body.get("provider") or {}
    return {name: wishes[name] for name in _DATA_RULES if wishes.get(name) is not None}


def plan_inner_request(
    asking: RequestContext, format: CallerFormat, chat: ChatRequest, deadline: float
) -> tuple[Planning, RequestContext]:
    """A request that the gateway makes for another one's sake, on its account. Raises
    `GatewayError`."""
    planning = Planning(asking.caller, format, chat, asking.region, deadline)
    plan_request(planning)
    choice = planning.choice
    return planning, RequestContext(
        generation_id=asking.generation_id,
        caller=asking.caller,
        payer=asking.payer,
        format=format,
        chat=planning.chat,
        demand=measure_demand(planning.chat),
        plan=planning.plan,
        choice=choice,
        requested_model=choice.requested[0],
        strategy=planning.asked.resolution.strategy,
        root_url=asking.root_url,
        app=asking.app,
        wants_metadata=False,
        created_at=asking.created_at,
        started=time.monotonic(),
        deadline=deadline,
        region=asking.region,
        refusal=planning.refusal,
        plugins=planning.plugins,
        identity=asking.identity,
        tags=asking.tags,
    )
