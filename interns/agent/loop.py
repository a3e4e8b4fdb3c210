"""One leg of a run: from a prompt or an answer until the agent is done or has a question."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic_ai import Agent, AgentRun, DeferredToolRequests, DeferredToolResults
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelHTTPError,
    UsageLimitExceeded,
    UserError,
)
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
)
from pydantic_ai.models import Model
from pydantic_ai.usage import RunUsage, UsageLimits

from interns.agent import events
from interns.agent.config import AgentConfig
from interns.agent.events import Event, JsonObject
from interns.agent.tools import RunTools, build_tools

log = logging.getLogger(__name__)

PREAMBLE = """\
You are {name}, an intern: an agent that works for one person over a long time, with a workspace of
files that stays when you are suspended. Use your tools to do what you are asked. Ask your person
only what you cannot find out or decide yourself."""
RETRYABLE = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
PAYMENT_REQUIRED = 402

Output = str | DeferredToolRequests
Emit = Callable[[Event], None]


@dataclass
class RunLeg:
    """What one leg begins with, and what it has come to when it ends.

    `requests` are the calls that wait for the person; None when the agent is done.
    """

    messages: list[ModelMessage]
    prompt: str | None = None
    results: DeferredToolResults | None = None
    steering: list[str] = field(default_factory=list)
    usage: RunUsage = field(default_factory=RunUsage)
    requests: DeferredToolRequests | None = None


class TurnFailed(Exception):
    """The agent cannot go on. `code` is the gateway's status where it refused a model call."""

    def __init__(self, message: str, *, retryable: bool, code: int | None = None) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.code = code


class AgentLoop:
    """The agent of one runtime."""

    def __init__(self, config: AgentConfig, model: Model) -> None:
        preamble = PREAMBLE.format(name=config.name)
        self._agent: Agent[RunTools, Output] = Agent(
            model,
            name=config.name,
            deps_type=RunTools,
            output_type=[str, DeferredToolRequests],
            instructions=[preamble, config.instructions] if config.instructions else preamble,
            tools=build_tools(config),
            retries=3,
        )
        self._limits = UsageLimits(request_limit=config.limits.model_calls)
        self._running: AgentRun[RunTools, Output] | None = None

    @property
    def tool_names(self) -> list[str]:
        return sorted(self._agent._function_toolset.tools)

    def steer(self, text: str) -> bool:
        """Give the run in progress another text. False when it is past taking one."""
        if self._running is None:
            return False
        try:
            self._running.enqueue(text)
        except UserError:
            return False
        return True

    async def run(self, leg: RunLeg, hands: RunTools, emit: Emit) -> None:
        """Carry `leg` on, telling `emit` what happens. `leg.messages` is kept up to date also when
        this is cancelled. Raises `TurnFailed`."""
        writer = _EventWriter(emit)
        try:
            async with self._agent.iter(
                leg.prompt,
                message_history=leg.messages,
                deferred_tool_results=leg.results,
                deps=hands,
                usage=leg.usage,
                usage_limits=self._limits,
            ) as run:
                self._running = run
                for text in leg.steering:
                    run.enqueue(text)
                leg.steering.clear()
                try:
                    await self._follow(run, writer)
                finally:
                    self._running = None
                    leg.messages = run.all_messages()
                    leg.usage = run.usage
                output = run.result.output if run.result else ""
        except AgentRunError as error:
            raise _build_failure(error) from error
        leg.requests = output if isinstance(output, DeferredToolRequests) else None

    async def _follow(self, run: AgentRun[RunTools, Output], writer: "_EventWriter") -> None:
        async for node in run:
            if Agent.is_model_request_node(node) or Agent.is_call_tools_node(node):
                async with node.stream(run.ctx) as stream:
                    async for event in stream:
                        writer.write(event)
            writer.write_model(run.all_messages())


class _EventWriter:
    """Turns the library's events into ours."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._model = ""

    def write(self, event: object) -> None:
        match event:
            case PartStartEvent(part=TextPart(content=text)) if text:
                self._emit(events.content(text))
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                self._emit(events.content(text))
            case PartStartEvent(part=ThinkingPart(content=text)) if text:
                self._emit(events.reasoning(text))
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)) if text:
                self._emit(events.reasoning(text))
            case FunctionToolCallEvent(part=part):
                self._emit(events.tool(part.tool_name, "called"))
            case FunctionToolResultEvent(part=part):
                self._emit(events.tool(part.tool_name or "", "returned"))

    def write_model(self, messages: list[ModelMessage]) -> None:
        """Tell the name of the model that answered last, when it is another than before."""
        last = next((m for m in reversed(messages) if isinstance(m, ModelResponse)), None)
        if last is not None and last.model_name and last.model_name != self._model:
            self._model = last.model_name
            self._emit(events.model(last.model_name))


def serialize_usage(usage: RunUsage, messages: list[ModelMessage]) -> JsonObject | None:
    """The usage in the chat format, None when no model answered. `cost` is in USD."""
    if not (usage.input_tokens or usage.output_tokens):
        return None
    counted: JsonObject = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
    }
    answers = [message for message in messages if isinstance(message, ModelResponse)]
    costs = [(each.provider_details or {}).get("cost") for each in answers]
    known = [float(cost) for cost in costs if isinstance(cost, int | float)]
    return counted | {"cost": sum(known)} if known else counted


def _build_failure(error: AgentRunError) -> TurnFailed:
    if isinstance(error, ModelHTTPError):
        # The gateway's own sentence where there is one.
        message = error.body.get("message") if isinstance(error.body, dict) else None
        text = str(message or f"The model call was refused with status {error.status_code}.")
        retryable = error.status_code in RETRYABLE
        return TurnFailed(text, retryable=retryable, code=error.status_code)
    if isinstance(error, ModelAPIError):
        return TurnFailed("The model could not be reached.", retryable=True)
    if isinstance(error, UsageLimitExceeded):
        return TurnFailed("The run needed more model calls than it may make.", retryable=False)
    log.warning("A run failed: %s", type(error).__name__)
    return TurnFailed("The model did not answer in a usable way.", retryable=True)
