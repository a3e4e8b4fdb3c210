"""Which preset a request names (management reference 4.6), read before anything is checked."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gateway.http.errors import InvalidRequest
from routing.selection.model_references import preset_of

_LISTS: Final = ("models", "fallbacks")


class Named(NamedTuple):
    """A preset's slug, and the body without its name: `model` is the part before `@preset/`, absent
    where there was none. `requested` is the model as the caller wrote it."""

    slug: str
    body: dict[str, Any]
    requested: str | None


def may_name_a_preset(body: Mapping[str, Any]) -> bool:
    """Asked for every request: nearly all end here."""
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


def named_preset(body: Mapping[str, Any]) -> Named | None:
    """The preset that a body names in any of the ways; None where it names none after all.

    Raises `InvalidRequest` for two that differ, and for a suffix behind a slug.
    """
    field = body.get("preset")
    if type(field) is str and ":" not in field and _says_model_alone(body):
        model = body.get("model")
        rest = dict(body)
        del rest["preset"]
        return Named(field, rest, model) if field else None
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
    return Named(slug, _without(body), _requested(body))


def _says_model_alone(body: Mapping[str, Any]) -> bool:
    """Whether no list of models is there, and the model names no preset: as nearly always."""
    model = body.get("model")
    plain = "@" not in model if type(model) is str else model is None
    return plain and "models" not in body and "fallbacks" not in body


def _references(body: Mapping[str, Any]) -> Iterator[str]:
    entries = [body.get("model"), *(each for name in _LISTS for each in _entries(body, name))]
    for entry in entries:
        model = entry.get("model") if type(entry) is dict else entry
        if type(model) is str:
            yield model


def _requested(body: Mapping[str, Any]) -> str | None:
    return next(_references(body), None)


def _without(body: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in body.items() if name != "preset"}
    model = rest.get("model")
    if type(model) is str and (preset := preset_of(model)) is not None:
        if preset.model:
            rest["model"] = preset.model
        else:
            del rest["model"]
    return rest


def with_models(body: dict[str, Any], models: Sequence[str]) -> dict[str, Any]:
    """The body with the preset's models in each place where a list names the preset alone."""
    if "models" not in body and "fallbacks" not in body:
        return body
    for name in _LISTS:
        if any(map(_has_at, _entries(body, name))):
            entries = [each for entry in body[name] for each in _models_only(entry, models)]
            body = {**body, name: entries}
    return body


def _models_only(entry: Any, models: Sequence[str]) -> Sequence[Any]:
    """An entry of a list without its preset."""
    model = entry.get("model") if type(entry) is dict else entry
    preset = preset_of(model) if type(model) is str else None
    if preset is None:
        return [entry]
    meant = [preset.model] if preset.model else models
    return [{**entry, "model": each} for each in meant] if type(entry) is dict else meant
