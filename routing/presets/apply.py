"""Applying the preset that a request names: finding the name, then parsing the merged body."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from pydantic import ValidationError

from accounts.caller import Caller
from gateway.http.errors import InvalidRequest, NotFound
from gateway.http.jsonio import JsonObject
from gateway.http.validation import Issue, list_issues, shorten
from routing.formats.chat.request import ChatInvalid, ChatRequest
from routing.formats.chat.schema import check_chat
from routing.formats.decisions.request import check_decisions
from routing.formats.messages.schema import check_messages
from routing.formats.responses.schema import check_responses
from routing.presets.merge import MergedBody, merge_preset
from routing.presets.read import find_active_preset
from routing.selection.model_references import preset_of

_LISTS: Final = ("models", "fallbacks")


class NamedPreset(NamedTuple):
    """A preset's slug and the body without it: `model` is the part before `@preset/`, and absent if
    that is empty. `requested` is the model as the caller wrote it."""

    slug: str
    body: JsonObject
    requested: str | None


def may_name_a_preset(body: Mapping[str, Any]) -> bool:
    """A quick test before `find_named_preset`, which most requests do not pass."""
    if body.get("preset") is not None:
        return True
    model = body.get("model")
    if type(model) is str and "@" in model:
        return True
    if "models" not in body and "fallbacks" not in body:
        return False
    return any(name in body and any(map(_has_at, _entries(body, name))) for name in _LISTS)


def _entries(body: Mapping[str, Any], name: str) -> Sequence[Any]:
    listed = body.get(name)
    return listed if type(listed) is list else ()


def _has_at(entry: Any) -> bool:
    model = entry.get("model") if type(entry) is dict else entry
    return type(model) is str and "@" in model


def find_named_preset(body: Mapping[str, Any]) -> NamedPreset | None:
    """The preset that a body names in `preset`, `model`, `models` or `fallbacks`, if any.

    Raises `InvalidRequest` for two that differ, and for a suffix behind a slug.
    """
    field = body.get("preset")
    if type(field) is str and ":" not in field and _has_plain_model(body):
        model = body.get("model")
        rest = dict(body)
        del rest["preset"]
        return NamedPreset(field, rest, model) if field else None
    slugs = dict.fromkeys(preset.slug for preset in map(preset_of, _references(body)) if preset)
    if type(field) is str and field:
        if slugs.keys() - {field}:
            raise InvalidRequest("preset: differs from the preset that the model names")
        slugs[field] = None
    elif field is not None and field != "":
        return None
    if len(slugs) > 1:
        raise InvalidRequest("models: only one preset can be named")
    if not slugs:
        return None
    slug = next(iter(slugs))
    if ":" in slug:
        raise InvalidRequest("model: a suffix belongs before @preset/, not after")
    return NamedPreset(slug, _without_preset(body), next(_references(body), None))


def _has_plain_model(body: Mapping[str, Any]) -> bool:
    """Whether there is no list of models and the model names no preset: the common case."""
    model = body.get("model")
    plain = "@" not in model if type(model) is str else model is None
    return plain and "models" not in body and "fallbacks" not in body


def _references(body: Mapping[str, Any]) -> Iterator[str]:
    entries = [body.get("model"), *(each for name in _LISTS for each in _entries(body, name))]
    for entry in entries:
        model = entry.get("model") if type(entry) is dict else entry
        if type(model) is str:
            yield model


def _without_preset(body: Mapping[str, Any]) -> JsonObject:
    rest = {name: value for name, value in body.items() if name != "preset"}
    model = rest.get("model")
    if type(model) is str and (preset := preset_of(model)) is not None:
        if preset.model:
            rest["model"] = preset.model
        else:
            del rest["model"]
    return rest


def insert_models(body: JsonObject, models: Sequence[str]) -> JsonObject:
    """The body in which the preset's models replace list entries that name the preset alone."""
    if "models" not in body and "fallbacks" not in body:
        return body
    for name in _LISTS:
        if any(map(_has_at, _entries(body, name))):
            entries = [each for entry in body[name] for each in _replace_preset(entry, models)]
            body = {**body, name: entries}
    return body


def _replace_preset(entry: Any, models: Sequence[str]) -> Sequence[Any]:
    """The entries that replace one entry of a list of models."""
    model = entry.get("model") if type(entry) is dict else entry
    preset = preset_of(model) if type(model) is str else None
    if preset is None:
        return [entry]
    meant = [preset.model] if preset.model else models
    return [{**entry, "model": each} for each in meant] if type(entry) is dict else meant


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "chat": check_chat,
    "messages": check_messages,
    "responses": check_responses,
    "decisions": check_decisions,
}


class ParseBody(Protocol):
    """The `parse` of a caller format with its other arguments bound."""

    def __call__(self, body: JsonObject, *, beside: JsonObject | None = None) -> ChatRequest: ...


class PresetRequest(NamedTuple):
    """A parsed request. If it named a preset: the preset's id, the model as the caller wrote it,
    and the preset's cache settings."""

    chat: ChatRequest
    preset_id: str | None = None
    requested: str | None = None
    caching: Mapping[str, Any] = {}


def read_with_preset(
    format: str, body: JsonObject, caller: Caller, read: ParseBody
) -> PresetRequest:
    """Parse a body that may name a preset.

    Raises `ChatInvalid`, `NotFound` for a preset that is not active in the caller's workspace, and
    `InvalidRequest`.
    """
    named = find_named_preset(body)
    if named is None:
        return PresetRequest(read(body))
    preset = find_active_preset(caller.workspace_id, named.slug) if caller.workspace_id else None
    if preset is None:
        # Errors of the request itself come first.
        read(body)
        raise NotFound(f"Preset not found: {shorten(named.slug)}")
    has_model = named.requested is not None and "model" in named.body
    if preset.chat_defaults is not None and format == "chat" and has_model:
        # The fast path, which most presets take.
        defaults = {**preset.chat_defaults, **insert_models(named.body, ())}
        return PresetRequest(
            _read_defaults(body, defaults, read), preset.id, named.requested, preset.caching
        )
    expanded = insert_models(named.body, preset.models)
    merged = merge_preset(format, expanded, preset.config, preset.system_prompt)
    if "model" not in merged.body:
        _put_default_model(format, body, merged.body, caller.default_text_model)
    chat = _read_merged(format, body, merged, read)
    # Reported with the unavailable tools, after the check for tools that the workspace disabled.
    chat.native_tools += merged.missing
    chat.server_tools += merged.missing
    requested = named.requested or str(merged.body["model"])
    return PresetRequest(chat, preset.id, requested, preset.caching)


def _read_defaults(body: JsonObject, defaults: JsonObject, read: ParseBody) -> ChatRequest:
    try:
        return read(defaults)
    except ChatInvalid:
        # Issues name the paths of the body that was sent.
        _check("chat", body)
        raise


def _put_default_model(format: str, given_body: JsonObject, body: JsonObject, default: str) -> None:
    """Write `model`: the first of `models`, as chat reads it, else the workspace's default."""
    models = body.get("models")
    if type(models) is list and models:
        body["model"] = models[0]
    elif default:
        body["model"] = default
    else:
        _check(format, given_body)
        raise InvalidRequest("No model specified")


def _read_merged(format: str, body: JsonObject, merged: MergedBody, read: ParseBody) -> ChatRequest:
    try:
        return read(merged.body, beside=merged.beside)
    except ChatInvalid as error:
        # Issues name the paths of the body that was sent.
        _check(format, body)
        issues = [_original_place(issue, merged.before) for issue in error.issues]
        raise ChatInvalid(issues, error.error_type) from None


def _check(format: str, body: JsonObject) -> None:
    try:
        _CHECKS[format](body)
    except ValidationError as error:
        raise ChatInvalid(list_issues(error)) from None


def _original_place(issue: Issue, before: int) -> Issue:
    """The issue with its path in the body that was sent."""
    field, _, rest = issue.path.partition(".")
    place, _, more = rest.partition(".")
    if field != "messages" or not place.isdigit() or not before:
        return issue
    return Issue(".".join(filter(None, (field, str(int(place) - before), more))), issue.message)
