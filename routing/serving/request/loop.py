"""The loop of server tools in one answer: what was said and done, and what comes next.

A turn is one answer of the model. Where it calls server tools, these are run and it is asked again,
until it calls none. Once a condition of the caller's is met or its steps are used up, it is asked a
last time, with its tools off. No I/O happens here.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from gateway.http.jsonio import JsonObject, dumps
from routing.entities.ids import tool_call_id
from routing.formats.caller import ToolActivity
from routing.formats.chat.facts import read_prompt
from routing.formats.chat.request import ChatRequest
from routing.metering.cost import ServerToolUse
from routing.serving.request.loop_costs import Charge, Tally
from routing.tools.calls import ServerToolCall
from routing.tools.interface import ModelAnswer, Result
from routing.tools.texts import place_citations
from routing.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from routing.serving.request.context import Attempt, RequestProgress

AskModel = Callable[["RequestProgress", JsonObject], ModelAnswer]

STEPS_MAX: Final = 30
# Where the caller's conditions have taken the place of that, a turn has a bound all the same.
CALLS_PER_TURN_MAX: Final = 30
# The caller format whose answers of several turns are one text.
CHAT: Final = "chat"
_NO_STEPS_LEFT: Final = "Not run: the limit of tool calls is reached. Answer with what you have"
# Finish reasons of an answer whose calls are not to be trusted to be whole.
_BROKEN_OFF: Final = frozenset({"length", "content_filter", "error"})
_FREE_CHOICES: Final = ("auto", "none")


class Loop:
    """`tally` is what it has cost, `pieces` what the caller got, in order. `turns` counts answers
    of the model.

    `functions` are the calls of the caller's own functions that the last turn made. `writer` is
    that of the stream, once a turn has ended in it, and `opened` whether it has said its beginning.
    """

    def __init__(self, chat: ChatRequest, toolbox: Toolbox) -> None:
        self.tally = Tally()
        # What requests on the same hold, this one included, may have to pay of it; by identity.
        self.shares: dict[int, Charge] = {}
        # Nobody reads the answer any more; set before the tools are stopped.
        self.caller_left = False
        # Whether a turn of it, or of an agent that it asked, could not be paid.
        self.cut_unpaid = False
        # Answers a chat body for a tool of this loop's request.
        self.ask_model: AskModel | None = None
        # At models that its tools asked, and theirs in turn; one sequence for each time.
        self.submodel_attempts: list[Sequence[Attempt]] = []
        # Calls that ended, also of tools of such models, by tool and by whether they failed.
        self.ended_calls: Counter[tuple[str, bool]] = Counter()
        self.pieces: list[JsonObject | ToolActivity] = []
        self._citable: list[JsonObject] = []
        # How much was said before this turn, where an answer is one text.
        self._chars_before = self._chars = 0
        self._is_one_text = chat.format == CHAT
        self.turns = self.requested = self.executed = 0
        self.writer: Any = None
        self.opened = False
        self._toolbox = toolbox
        self._found = toolbox.found_count
        self._conditions: list[JsonObject] = chat.body.get("stop_server_tools_when") or []
        self._steps_max = int(chat.body.get("max_tool_calls") or STEPS_MAX)
        self._hides_reasoning = chat.reasoning is not None and chat.reasoning.exclude
        # Of the turn that was taken last.
        self.activities: list[ToolActivity] = []
        self._message: JsonObject = {}
        self._new: list[JsonObject] = []
        self._tools_off = False
        self.functions: list[JsonObject] = []
        # Where the places of this turn's reasoning details begin, and where the next one's will.
        self._first_detail = self._next_detail = 0

    # --- One turn -------------------------------------------------------------------------------

    def take(
        self, message: JsonObject, *, finish: str, logprobs: object = None
    ) -> list[ServerToolCall]:
        """Note an answer of the model whose cost is in the tally, and return the server tools to
        run. There are none where the loop ends with it."""
        self.turns += 1
        calls = [] if self._tools_off else message.get("tool_calls") or []
        server = [call for call in calls if self._toolbox.find(_name(call)) is not None]
        self.functions = [call for call in calls if self._toolbox.find(_name(call)) is None]
        self._message = {name: each for name, each in message.items() if name != "tool_calls"}
        self._chars_before, self._chars = self._chars, self._chars + len(self._text)
        # What the caller sees of the answer; its calls come behind what tools did.
        visible = self.visible_message(self._message)
        self._first_detail = self._next_detail
        if logprobs is not None:
            visible["logprobs"] = logprobs
        self.pieces.append(visible)
        self.requested += len(server)
        if not server or finish in _BROKEN_OFF:
            self._show_functions()
            return []
        # The calls of one turn as they are sent back, none with the id of another.
        seen: set[str] = set()
        unique: list[JsonObject] = []
        for call in server:
            call_id = call["id"] if call["id"] not in seen else tool_call_id()
            seen.add(call_id)
            arguments = call["function"].get("arguments")
            if not isinstance(arguments, str):
                # A text, whatever the upstream made of them.
                arguments = "" if arguments is None else dumps(arguments).decode()
            function = {"name": _name(call), "arguments": arguments}
            unique.append({"id": call_id, "type": "function", "function": function})
        self._message["tool_calls"] = server = unique
        return self._plan_calls(server, finish, [_name(call) for call in calls])

    def _show_functions(self) -> None:
        if self.functions:
            self.pieces.append({"role": "assistant", "tool_calls": self.functions})

    def visible_message(self, message: JsonObject) -> JsonObject:
        """A message or a delta as the caller sees it. It has no calls, which follow when they are
        whole, and its reasoning stands behind that of earlier turns."""
        visible = {name: each for name, each in message.items() if name != "tool_calls"}
        if self._hides_reasoning:
            visible.pop("reasoning_details", None)
            if "reasoning" in visible:
                visible["reasoning"] = None
        elif isinstance(details := visible.get("reasoning_details"), list):
            shifted = visible["reasoning_details"] = list(details)
            for number, detail in enumerate(details):
                index = detail.get("index") if isinstance(detail, dict) else None
                if type(index) is int:
                    place = self._first_detail + index
                    self._next_detail = max(self._next_detail, place + 1)
                    shifted[number] = {**detail, "index": place}
        return visible

    def _plan_calls(
        self, server: list[JsonObject], finish: str, names: list[str]
    ) -> list[ServerToolCall]:
        calls_left = CALLS_PER_TURN_MAX
        if not self._conditions:
            calls_left = min(calls_left, max(0, self._steps_max - self.executed))
        pending, self.activities = [], []
        for number, call in enumerate(server):
            fitted = self._toolbox.find(_name(call))
            assert fitted is not None
            arguments = call["function"]["arguments"]
            refusal = None if number < calls_left else _NO_STEPS_LEFT
            pending.append(ServerToolCall(fitted, call["id"], arguments, refusal))
            place = self._first_detail
            self._first_detail = self._next_detail = place + 1
            self.activities.append(
                ToolActivity(call["id"], fitted.type, fitted.name, arguments, index=place)
            )
        self.executed += min(calls_left, len(server))
        self.pieces += self.activities
        self._tools_off = self._is_last_turn(finish, names)
        return pending

    def _is_last_turn(self, finish: str, names: list[str]) -> bool:
        """Whether the next turn is the last: steps are counted with those that were asked for."""
        if not self._conditions:
            return self.requested >= self._steps_max
        types = [fitted.type for name in names if (fitted := self._toolbox.find(name)) is not None]
        return any(
            is_met(
                condition,
                steps=self.requested,
                called={*names, *types},
                tokens=self.tally.usage.prompt_tokens + self.tally.usage.completion_tokens,
                cost_nano=self.tally.total_nano,
                finish=finish,
            )
            for condition in self._conditions
        )

    # --- The tools of a turn --------------------------------------------------------------------

    @property
    def server_calls(self) -> list[ToolActivity]:
        """Those of all turns."""
        return [piece for piece in self.pieces if isinstance(piece, ToolActivity)]

    def add_results(self, results: Sequence[Result]) -> None:
        """Note the results of the calls, in their order."""
        answers = []
        for activity, result in zip(self.activities, results, strict=True):
            if result.failed:
                activity.status = "failed"
            else:
                activity.status = "in_progress" if result.calls else "completed"
            activity.result, activity.item = result.text, result.item
            activity.started, activity.ended = result.started, result.ended
            activity.block_type, activity.block = result.block_type, result.block
            if result.images:
                self.pieces.append({"role": "assistant", "images": result.images})
            self._citable += result.annotations
            agent = {"subagent_id": activity.call_id}
            self.functions = [*self.functions, *({**call, **agent} for call in result.calls)]
            content = {"tool_call_id": activity.call_id, "content": result.text}
            answers.append({"role": "tool", **content})
        self._new = [_build_history_message(self._message), *answers]
        self._show_functions()

    def conversation(self, chat: ChatRequest) -> list[JsonObject]:
        """With the last turn, which has called functions, and the results of its server tools;
        `chat` is that turn's request."""
        server = self._message.get("tool_calls") or []
        message = {**self._message, "tool_calls": [*server, *self.functions]}
        results = self._new[1:] if server else []
        return [*chat.body["messages"], _build_history_message(message), *results]

    @property
    def annotations(self) -> list[JsonObject]:
        """What the answer cites of what tools found, to be sent when it ends."""
        before = self._chars_before if self._is_one_text else 0
        return place_citations(self._citable, self._text, before=before) if self._citable else []

    @property
    def _text(self) -> str:
        """Of this turn."""
        content = self._message.get("content")
        return content if type(content) is str else ""

    @property
    def goes_on(self) -> bool:
        """Whether the model is asked again, once its tools were run."""
        return not self.functions

    def next_request(self, chat: ChatRequest) -> ChatRequest:
        """What the model is asked next; `chat` is what it was asked before."""
        facts = read_prompt(self._new)
        body = {**chat.body, "messages": [*chat.body["messages"], *self._new]}
        added_bytes = 0
        if self._toolbox.found_count != self._found:
            # The functions that a tool has found since are shown from now on.
            self._found, before = self._toolbox.found_count, body["tools"]
            body["tools"] = self._toolbox.visible_tools
            added_bytes = len(dumps(body["tools"])) - len(dumps(before))
        if self._tools_off:
            body["tool_choice"] = "none"
        elif must_call(body):
            # A model that must call a tool every time never answers.
            body["tool_choice"] = "auto"
        return replace(
            chat,
            body=body,
            tools_off=self._tools_off,
            # It is shown once, before anything else.
            echo_upstream_body=False,
            text_bytes=chat.text_bytes + facts.text_bytes + added_bytes,
            prompt_text_chars=chat.prompt_text_chars + facts.text_chars + added_bytes,
            message_count=chat.message_count + len(self._new),
        )

    def close(self) -> None:
        """Leave nothing behind of what its tools have made."""
        self._toolbox.close()

    def finish(self, finish: str) -> str:
        """The finish reason of the answer, by that of its last turn. Calls that were made with the
        tools off are dropped."""
        return "stop" if finish == "tool_calls" and not self.functions else finish

    @property
    def tool_use(self) -> ServerToolUse:
        return ServerToolUse(self.requested, self.executed)


def must_call(body: Mapping[str, Any]) -> bool:
    """Whether a model that is asked so has to call a tool."""
    return body.get("tool_choice", "auto") not in _FREE_CHOICES


def with_tools(chat: ChatRequest, toolbox: Toolbox) -> ChatRequest:
    """The request whose server tools are functions."""
    tools = toolbox.visible_tools
    added_bytes = len(dumps(tools)) - len(dumps(chat.body["tools"]))
    body = {**chat.body, "tools": tools}
    if "tool_choice" in body:
        body["tool_choice"] = toolbox.choice(body["tool_choice"])
    return replace(
        chat,
        body=body,
        text_bytes=chat.text_bytes + added_bytes,
        prompt_text_chars=chat.prompt_text_chars + added_bytes,
    )


_HISTORY_FIELDS: Final = ("reasoning", "reasoning_details", "tool_calls")


def _build_history_message(message: JsonObject) -> JsonObject:
    """The message of the model as it reads it in the next turn."""
    fields = {name: message[name] for name in _HISTORY_FIELDS if message.get(name)}
    content = message.get("content")
    return {**fields, "role": "assistant", "content": content if type(content) is str else None}


def _name(call: object) -> str:
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else ""


_NANO_PER_USD: Final = 1_000_000_000


def is_met(
    condition: JsonObject,
    *,
    steps: int,
    called: Collection[str],
    tokens: int,
    cost_nano: Fraction,
    finish: str,
) -> bool:
    """After a turn. `steps` are the calls of server tools so far. `called` are the tools of this
    turn: functions by name, server tools by type and by the name the model knows. `tokens` and
    `cost_nano` are what was used so far."""
    kind = condition["type"]
    if kind == "step_count_is":
        return bool(steps >= condition["step_count"])
    if kind == "has_tool_call":
        return condition["tool_name"] in called
    if kind == "max_tokens_used":
        return bool(tokens >= condition["max_tokens"])
    if kind == "max_cost":
        dollars = Fraction(Decimal(str(condition["max_cost_in_dollars"])))
        return cost_nano >= dollars * _NANO_PER_USD
    return bool(finish == condition["reason"])
