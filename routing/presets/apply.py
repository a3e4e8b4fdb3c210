"""Applying the preset that a request names: finding the name, then parsing the merged body."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from pydantic import ValidationError

from accounts.caller import Caller
from gateway.http.errors import InvalidRequest, NotFound
from gateway.http.jsonio import JsonObject
from gateway.http.validation import Issue, list_issues, shorten
from routing.formats.chat.request import ChatInvalid, ChatRequest
from routing.formats.chat.schema import check_chat
from routing.formats.decisions import check_decisions
from routing.formats.embeddings import check_embeddings
from routing.formats.messages.schema import check_messages
from routing.formats.responses.schema import check_responses
from routing.presets.merge import merge_preset
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


def _has_at(entry: object) -> bool:
    model = entry.get("model") if type(entry) is dict else entry
    return type(model) is str and "@" in model


def find_named_preset(body: Mapping[str, Any]) -> NamedPreset | None:
    """The preset that a body names in `preset`, `model`, `models` or `fallbacks`, if any.

    Raises `InvalidRequest` for two that differ, and for a suffix behind a slug.
    """
    field, model = body.get("preset"), body.get("model")
    # The common case: no list of models, and the model names no preset.
    is_plain = "models" not in body and "fallbacks" not in body
    is_plain &= "@" not in model if type(model) is str else model is None
    if is_plain and type(field) is str and ":" not in field:
        rest = dict(body)
        del rest["preset"]
        return NamedPreset(field, rest, model) if field else None
    entries = [model, *(each for name in _LISTS for each in _entries(body, name))]
    named = [entry.get("model") if type(entry) is dict else entry for entry in entries]
    references = [reference for reference in named if type(reference) is str]
    slugs = dict.fromkeys(preset.slug for preset in map(preset_of, references) if preset)
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
    rest = {name: value for name, value in body.items() if name != "preset"}
    if type(model) is str and (preset := preset_of(model)) is not None:
        if preset.model:
            rest["model"] = preset.model
        else:
            del rest["model"]
    return NamedPreset(slug, rest, references[0] if references else None)


def insert_models(body: JsonObject, models: Sequence[str]) -> JsonObject:
    """The body in which the preset's models replace list entries that name the preset alone."""
    if "models" not in body and "fallbacks" not in body:
        return body
    for name in _LISTS:
        if not any(map(_has_at, _entries(body, name))):
            continue
        entries: list[Any] = []
        for entry in body[name]:
            model = entry.get("model") if type(entry) is dict else entry
            preset = preset_of(model) if type(model) is str else None
            if preset is None:
                entries.append(entry)
                continue
            meant = [preset.model] if preset.model else models
            entries += (
                [{**entry, "model": each} for each in meant] if type(entry) is dict else meant
            )
        body = {**body, name: entries}
    return body


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "chat": check_chat,
    "messages": check_messages,
    "responses": check_responses,
    "decisions": check_decisions,
    "embeddings": check_embeddings,
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
        try:
            chat = read(defaults)
        except ChatInvalid:
            # Issues name the paths of the body that was sent.
            _check_sent(format, body)
            raise
        return PresetRequest(chat, preset.id, named.requested, preset.caching)
    expanded = insert_models(named.body, preset.models)
    merged = merge_preset(format, expanded, preset.config, preset.system_prompt)
    if "model" not in merged.body:
        models = merged.body.get("models")
        if type(models) is list and models:
            # As chat reads it.
            merged.body["model"] = models[0]
        elif caller.default_text_model:
            merged.body["model"] = caller.default_text_model
        else:
            _check_sent(format, body)
            raise InvalidRequest("No model specified")
    try:
        chat = read(merged.body, beside=merged.beside)
    except ChatInvalid as error:
        _check_sent(format, body)
        issues = [_restore_path(issue, merged.before) for issue in error.issues]
        raise ChatInvalid(issues, error.error_type) from None
    # Reported with the unavailable tools, after the check for tools that the workspace disabled.
    chat.native_tools += merged.missing
    chat.server_tools += merged.missing
    requested = named.requested or str(merged.body["model"])
    return PresetRequest(chat, preset.id, requested, preset.caching)


def _check_sent(format: str, body: JsonObject) -> None:
    """Refuse what is wrong in the body as it was sent, by its own paths. Raises `ChatInvalid`."""
    try:
        _CHECKS[format](body)
    except ValidationError as error:
        raise ChatInvalid(list_issues(error)) from None


def _restore_path(issue: Issue, before: int) -> Issue:
    """The issue with its path in the body that was sent."""
    field, _, rest = issue.path.partition(".")
    place, _, more = rest.partition(".")
    if field != "messages" or not place.isdigit() or not before:
        return issue
    return Issue(".".join(filter(None, (field, str(int(place) - before), more))), issue.message)
