"""What a playground can ask, and a logged request to be asked again."""

from typing import Any, Final, NamedTuple

from accounts.models import Workspace
from console.queries.keys import is_member
from console.queries.models import list_permitted_models
from console.queries.request_detail import RequestDetail, find_request, read_content
from console.scope import Scope
from interns.models import Intern, Status
from routing.presets.models import Preset

_PRESETS_MAX: Final = 500
_INTERNS_MAX: Final = 200
_TALKERS: Final = ("user", "assistant")
_INSTRUCTORS: Final = ("system", "developer")


class Target(NamedTuple):
    """What can be asked: how it is named in the field, and what it is called. Presets and interns
    are of one workspace; an intern is asked by its id."""

    name: str
    label: str
    workspace: str = ""
    intern_id: str = ""


def list_targets(scope: Scope, workspaces: list[Workspace]) -> list[Target]:
    """Models, presets and running interns."""
    models = [Target(each.id, each.name) for each in list_permitted_models(scope.account)]
    presets = Preset.objects.filter(workspace__in=workspaces, status=Preset.Status.ACTIVE)
    rows = presets.order_by("slug")[:_PRESETS_MAX]
    named = [Target(f"@preset/{p.slug}", p.name, str(p.workspace_id)) for p in rows]
    return [*models, *named, *_list_interns(scope, workspaces)]


def _list_interns(scope: Scope, workspaces: list[Workspace]) -> list[Target]:
    """Interns answer keys of people who belong to the account."""
    if not scope.account.interns_enabled or not is_member(scope):
        return []
    interns = Intern.objects.filter(workspace__in=workspaces, status=Status.RUNNING)
    return [
        Target(f"intern: {each.name}", "Intern", str(each.workspace_id), str(each.pk))
        for each in interns.order_by("name")[:_INTERNS_MAX]
    ]


class Replay(NamedTuple):
    """A logged conversation. `turns` are `{role, text}` in order; `is_whole` is false where tools,
    files or images were left out."""

    model: str
    format: str
    system: str
    turns: list[dict[str, str]]
    is_whole: bool


def find_replay(seen: Scope, generation_id: str) -> Replay | None:
    """The conversation of a request that was logged, for who may read it."""
    detail = find_request(seen, generation_id)
    return read_replay(detail) if detail is not None and detail.may_read_content else None


def read_replay(detail: RequestDetail) -> Replay | None:
    content = read_content(detail.record)
    if content is None:
        return None
    system: list[str] = []
    turns: list[dict[str, str]] = []
    is_whole = True
    for message in content["input"]["messages"]:
        role, text = message.get("role"), _read_words(message.get("content"))
        is_whole &= text is not None and role in (*_TALKERS, *_INSTRUCTORS)
        is_whole &= not message.get("tool_calls")
        if role in _INSTRUCTORS and text:
            system.append(text)
        elif role in _TALKERS and text:
            turns.append({"role": role, "text": text})
    record = detail.record
    format_name = str(record.detail.get("format", "chat"))
    return Replay(record.requested_model, format_name, "\n\n".join(system), turns, is_whole)


def _read_words(content: Any) -> str | None:
    """The text of a message; None where it is more than text."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str) for part in content
    ):
        return "\n".join(part["text"] for part in content)
    return None
