"""The interface of plugins, which a request switches on by their id."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accounts.caller import Caller
from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from routing.entities.entries import ModelEntry
from routing.formats.caller import AnswerPieces
from routing.formats.chat.request import ChatRequest


@dataclass(frozen=True, slots=True)
class PluginContext:
    """What a plugin may know of the request: the caller, the resolved models (none if a router
    found none), and the deadline (monotonic seconds).

    `refuse` is for plugins with long work: called before it, it raises the `GatewayError` with
    which guardrails, payment or rate limits would refuse the request anyway.
    """

    caller: Caller
    models: Sequence[ModelEntry]
    deadline: float
    refuse: Callable[[], None] = lambda: None


class Plugin:
    """One plugin of one request, made of its checked settings. Each method is one place where it
    may take part, in this order; a plugin has those that it needs.

    `stages` are what `router_metadata.pipeline` tells of it (`type`, `name`, `summary`, `data`),
    `facts` what the record's details keep.
    """

    def __init__(self, settings: JsonObject) -> None:
        self.settings = settings
        self.stages: list[JsonObject] = []
        self.facts: JsonObject = {}

    def tools(self) -> list[JsonObject]:
        """Server tools that it adds to the request, checked ones of the chat format. One whose tool
        nothing here runs is not available either. Asked before a model is chosen."""
        return []

    def asked(self, chat: ChatRequest, context: PluginContext) -> ChatRequest:
        """The request as it goes on, `chat` itself where it stays as it is (`routing.plugins.texts`
        makes another). Content filters come after it. Raises `GatewayError`."""
        return chat

    def judged(
        self, chat: ChatRequest, context: PluginContext
    ) -> Callable[[], GatewayError] | None:
        """What makes the refusal of a request that is not to go on; None lets it pass. It comes
        after the content filters."""
        return None

    def rewrites(self, chat: ChatRequest) -> bool:
        """Whether `answered` may change the answer to this request."""
        return False

    def answered(self, chat: ChatRequest, message: JsonObject) -> JsonObject:
        """The chat-shaped message of a whole answer; streams are not changed."""
        return message

    def annotations(self) -> list[JsonObject]:
        """What an answer cites on its account, told with its end."""
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
        message = plugin.answered(chat, message)
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
