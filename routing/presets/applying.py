"""A request that names a preset, read with the preset under it."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from pydantic import ValidationError

from accounts.caller import Caller
from gateway.http.errors import InvalidRequest, NotFound
from gateway.http.validation import Issue, list_issues, shorten
from routing.formats.chat.request import ChatInvalid, ChatRequest
from routing.formats.chat.schema import check_chat
from routing.formats.decisions.request import check_decisions
from routing.formats.messages.schema import check_messages
from routing.formats.responses.schema import check_responses
from routing.presets.inforce import find_preset
from routing.presets.merging import Merged, merged
from routing.presets.naming import Named, named_preset, with_models

_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "chat": check_chat,
    "messages": check_messages,
    "responses": check_responses,
    "decisions": check_decisions,
}


class Read(Protocol):
    """A caller format's `parse`, but for what it is told of the request."""

    def __call__(
        self, body: dict[str, Any], *, beside: dict[str, Any] | None = None
    ) -> ChatRequest: ...


class Applied(NamedTuple):
    """A request as it was read. Where it named a preset: its id, the model as the caller wrote it,
    and what the preset says of caching."""

    chat: ChatRequest
    preset_id: str | None = None
    requested: str | None = None
    caching: Mapping[str, Any] = {}


def applied(format: str, body: dict[str, Any], caller: Caller, read: Read) -> Applied:
    """The request of a body that may name a preset.

    Raises `ChatInvalid`, `NotFound` for a preset that the caller's workspace has not in force, and
    `InvalidRequest`.
    """
    named = named_preset(body)
    if named is None:
        return Applied(read(body))
    preset = find_preset(caller.workspace_id, named.slug) if caller.workspace_id else None
    if preset is None:
        # What is wrong with the request itself is told first.
        read(body)
        raise NotFound(f"Preset not found: {shorten(named.slug)}")
    has_model = named.requested is not None and "model" in named.body
    if preset.laid is not None and format == "chat" and has_model:
        # Nearly every preset of chat is no more than this.
        laid = {**preset.laid, **with_models(named.body, ())}
        return Applied(_laid(body, laid, read), preset.id, named.requested, preset.caching)
    asked = with_models(named.body, preset.models)
    both = merged(format, asked, preset.config, preset.system_prompt)
    if "model" not in both.body:
        _put_default(format, body, both.body, caller.default_text_model)
    chat = _read(format, body, both, read)
    # Who may not have them is told so before what there is not.
    chat.native_tools += both.missing
    chat.server_tools += both.missing
    return Applied(chat, preset.id, _requested(named, both), preset.caching)


def _laid(body: dict[str, Any], laid: dict[str, Any], read: Read) -> ChatRequest:
    try:
        return read(laid)
    except ChatInvalid:
        # The caller is told of the body that was sent.
        _check("chat", body)
        raise


def _put_default(format: str, said: dict[str, Any], body: dict[str, Any], default: str) -> None:
    """The first of several models is the one meant, as for chat; else the workspace's default."""
    models = body.get("models")
    if type(models) is list and models:
        body["model"] = models[0]
    elif default:
        body["model"] = default
    else:
        _check(format, said)
        raise InvalidRequest("No model specified")


def _read(format: str, body: dict[str, Any], both: Merged, read: Read) -> ChatRequest:
    try:
        return read(both.body, beside=both.beside)
    except ChatInvalid as error:
        # The caller is told of the body that was sent.
        _check(format, body)
        issues = [_at_home(issue, both.before) for issue in error.issues]
        raise ChatInvalid(issues, error.error_type) from None


def _check(format: str, body: dict[str, Any]) -> None:
    try:
        _CHECKS[format](body)
    except ValidationError as error:
        raise ChatInvalid(list_issues(error)) from None


def _at_home(issue: Issue, before: int) -> Issue:
    """The issue at the message's place in the body that was sent."""
    field, _, rest = issue.path.partition(".")
    place, _, more = rest.partition(".")
    if field != "messages" or not place.isdigit() or not before:
        return issue
    return Issue(".".join(filter(None, (field, str(int(place) - before), more))), issue.message)


def _requested(named: Named, both: Merged) -> str:
    return named.requested or str(both.body["model"])
