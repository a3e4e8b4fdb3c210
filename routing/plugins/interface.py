"""The interface of plugins, which a request switches on by their id, and how they change it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from accounts.caller import Caller
from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject, dumps
from routing.entities.entries import ModelEntry
from routing.formats.caller import AnswerPieces
from routing.formats.chat.facts import read_prompt
from routing.formats.chat.request import ChatRequest
from routing.formats.server_tools import canonical_tool
from routing.response_cache.cached_answers import Entry

_FORMER_NAMES: Final = {
    "asked": "change_request",
    "judged": "find_refusal",
    "answered": "change_answer",
}


@dataclass(frozen=True, slots=True)
class PluginContext:
    """What a plugin may know of the request: the caller, the resolved models (none if a router
    found none), and the deadline (monotonic seconds).

    `refuse` is for plugins with long work, which call it first. It raises the `GatewayError` with
    which guardrails, payment or rate limits would refuse the request anyway.
    """

    caller: Caller
    models: Sequence[ModelEntry]
    deadline: float
    refuse: Callable[[], None] = lambda: None


class Embedded(NamedTuple):
    """The vector of a text, None where there is none (`error_type` says why), and what it cost."""

    vector: Sequence[float] | None
    generation_id: str | None = None
    cost_nano: int = 0
    error_type: str | None = None


# A model, a text and for how many seconds it is waited for.
Embed = Callable[[str, str, float], Embedded]


class AnswerSearch(NamedTuple):
    """What a plugin may use to find an answer. `body` is the request as it was sent. `name` names
    the same request with these bodies, by the rules of the response cache. `embed` asks a model for
    the vector of a text. With `is_anew` none is to be found, and the next one kept."""

    body: JsonObject
    name: Callable[..., str]
    embed: Embed
    is_anew: bool = False


class Plugin:
    """One plugin of one request, made of its checked settings. Each method is one place where it
    may take part, in this order; a plugin has those that it needs.

    `stages` are its stages of `router_metadata.pipeline` (`type`, `name`, `summary`, `data`),
    `facts` what the record's details keep.
    """

    # Whether it may answer in an upstream's place.
    may_answer = False

    def __init_subclass__(cls) -> None:
        # Plugins of operators may have the methods under their names of 0.1.0.
        for former, name in _FORMER_NAMES.items():
            if former in vars(cls):
                setattr(cls, name, vars(cls)[former])

    def __init__(self, settings: JsonObject) -> None:
        self.settings = settings
        self.stages: list[JsonObject] = []
        self.facts: JsonObject = {}

    def tools(self) -> list[JsonObject]:
        """Server tools that it adds to the request, checked ones of the chat format. One whose tool
        nothing here runs is not available either. Asked before a model is chosen."""
        return []

    def change_request(self, chat: ChatRequest, context: PluginContext) -> ChatRequest:
        """The request as it goes on, `chat` itself where it stays as it is (`with_messages` makes
        another). Content filters come after it. Raises `GatewayError`."""
        return chat

    def find_refusal(
        self, chat: ChatRequest, context: PluginContext
    ) -> Callable[[], GatewayError] | None:
        """What makes the refusal of a request that is not to go on; None lets it pass. It comes
        after the content filters."""
        return None

    def find_answer(self, chat: ChatRequest, search: AnswerSearch) -> Entry | None:
        """An answer in an upstream's place, for plugins that `may_answer`. It comes after
        guardrails, rate limits and the response cache, and not where that may keep nothing of the
        request."""
        return None

    def keep_answer(self, entry: Entry) -> None:
        """The full answer of an upstream to a request that the plugin found none for."""

    def answer_headers(self) -> dict[str, str]:
        """What the headers of the answer say of its search."""
        return {}

    def rewrites(self, chat: ChatRequest) -> bool:
        """Whether `change_answer` may change the answer to this request."""
        return False

    def change_answer(self, chat: ChatRequest, message: JsonObject) -> JsonObject:
        """The chat-shaped message of a whole answer; streams are not changed."""
        return message

    def enforces_schema(self) -> bool:
        """Whether whole answers that do not fit the request's JSON schema are asked for again."""
        return False

    def annotations(self) -> list[JsonObject]:
        """The citations that it adds to the answer's end."""
        return []


# From the checked settings of the entry in `plugins`, its `id` and `enabled` included.
Maker = Callable[[JsonObject], Plugin]


def rewrite_message(
    plugins: Sequence[Plugin],
    chat: ChatRequest,
    message: JsonObject,
    stages: list[JsonObject],
) -> JsonObject:
    """The message of a whole answer after the plugins; what they did is added to the stages."""
    for plugin in plugins:
        before = len(plugin.stages)
        message = plugin.change_answer(chat, message)
        stages += plugin.stages[before:]
    cited = list_citations(plugins)
    if cited:
        message = {**message, "annotations": [*(message.get("annotations") or ()), *cited]}
    return message


def replace_text(pieces: AnswerPieces, text: str) -> AnswerPieces:
    """The pieces of an answer whose texts together were made into this one."""
    silent = [{**each, "content": None} if isinstance(each, dict) else each for each in pieces]
    return [*silent, {"role": "assistant", "content": text}]


def list_citations(plugins: Sequence[Plugin]) -> list[JsonObject]:
    """What the answer cites on account of its plugins."""
    return [each for plugin in plugins for each in plugin.annotations()]


def with_messages(chat: ChatRequest, messages: list[JsonObject]) -> ChatRequest:
    """The request with these messages instead of its own. What an upstream of the caller's format
    is sent is translated from them, too."""
    before, after = read_prompt(chat.body["messages"]), read_prompt(messages)
    return replace(
        chat,
        body={**chat.body, "messages": messages},
        rewritten=True,
        text_bytes=max(0, chat.text_bytes + after.text_bytes - before.text_bytes),
        prompt_text_chars=max(0, chat.prompt_text_chars + after.text_chars - before.text_chars),
        message_count=len(messages),
        media_parts=max(0, chat.media_parts + after.media_parts - before.media_parts),
        image_parts=max(0, chat.image_parts + after.image_parts - before.image_parts),
        input_modalities=frozenset(after.modalities),
    )


def with_more_tools(chat: ChatRequest, tools: list[JsonObject]) -> ChatRequest:
    """The request with these server tools behind its own, those that it has already left out."""
    own: list[JsonObject] = chat.body.get("tools") or []
    named = {canonical_tool(tool["type"]) for tool in own}
    new = [tool for tool in tools if canonical_tool(tool["type"]) not in named]
    if not new:
        return chat
    grown = len(dumps(new))
    kinds = [*chat.server_tools, *(canonical_tool(tool["type"]) for tool in new)]
    return replace(
        chat,
        body={**chat.body, "tools": [*own, *new]},
        server_tools=list(dict.fromkeys(kinds)),
        tools_given=True,
        text_bytes=chat.text_bytes + grown,
        prompt_text_chars=chat.prompt_text_chars + grown,
    )
