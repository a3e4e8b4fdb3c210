"""The playground: models, presets and interns side by side, asked with the person's own key."""

from typing import Final, NamedTuple

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_POST

from accounts.models import Workspace
from console.page import PageContext, page, render_page
from console.playground_keys import find_playground_key
from console.queries.keys import (
    choose_workspace,
    find_own_workspace,
    list_workspaces_for_keys,
)
from console.queries.models import list_permitted_models
from console.queries.request_detail import find_request, join_text_parts, read_content
from console.queries.snippets import choose_model
from console.scope import Scope
from gateway.http.errors import GatewayError
from gateway.http.jsonio import format_time
from interns.models import Intern, Status
from routing.presets.models import Preset
from routing.tools.registry import list_missing

_PRESETS_MAX: Final = 500
# Those that do without settings.
_SERVER_TOOLS: Final = (
    ("router:datetime", "Date and time"),
    ("router:web_search", "Search the web"),
    ("router:web_fetch", "Read web pages"),
)
_INTERNS_MAX: Final = 200
_TALKERS: Final = ("user", "assistant")
_INSTRUCTORS: Final = ("system", "developer")


@page
def show_playground(request: HttpRequest, page: PageContext) -> HttpResponse:
    workspaces = list_workspaces_for_keys(page.scope)
    replay = find_replay(page.scope, request.GET["replay"]) if "replay" in request.GET else None
    named = {str(each.pk): each for each in workspaces}.get(request.GET.get("workspace", ""))
    chosen = named or choose_workspace(page.scope, workspaces)
    if replay is not None:
        start = {**replay._asdict(), "models": [replay.model]}
    else:
        models = [each for each in request.GET.getlist("model")[:4] if each]
        start = {"models": models or [choose_model()]}
    context = {
        "title": "Playground",
        "workspaces": workspaces,
        "chosen": chosen,
        "replay": replay,
        "server_tools": [each for each in _SERVER_TOOLS if not list_missing([{"type": each[0]}])],
        "replay_is_gone": "replay" in request.GET and replay is None,
        "data": {
            "targets": [each._asdict() for each in list_targets(page.scope, workspaces)],
            "root": request.build_absolute_uri("/").rstrip("/"),
            "start": start,
        },
    }
    return render_page(request, page, "console/playground.html", context)


@require_POST
@page
def give_key(request: HttpRequest, page: PageContext) -> HttpResponse:
    """The string of the playground's key, for the page's script, as JSON."""
    try:
        scope, workspace = find_own_workspace(page.scope, request.POST.get("workspace", ""))
        key = find_playground_key(request, scope, workspace, page.now)
    except GatewayError as refusal:
        return JsonResponse({"error": refusal.text}, status=refusal.status)
    return JsonResponse({"key": key.string, "expires_at": format_time(key.expires_at)})


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
    # Interns answer keys of people who belong to the account.
    if not scope.account.interns_enabled or not scope.is_member:
        return [*models, *named]
    running = Intern.objects.filter(workspace__in=workspaces, status=Status.RUNNING)
    interns = [
        Target(f"intern: {each.name}", "Intern", str(each.workspace_id), str(each.pk))
        for each in running.order_by("name")[:_INTERNS_MAX]
    ]
    return [*models, *named, *interns]


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
    content = read_content(detail.record) if detail and detail.may_read_content else None
    if detail is None or content is None:
        return None
    system: list[str] = []
    turns: list[dict[str, str]] = []
    is_whole = True
    for message in content["input"]["messages"]:
        role, text = message.get("role"), join_text_parts(message.get("content"))
        is_whole &= text is not None and role in (*_TALKERS, *_INSTRUCTORS)
        is_whole &= not message.get("tool_calls")
        if role in _INSTRUCTORS and text:
            system.append(text)
        elif role in _TALKERS and text:
            turns.append({"role": role, "text": text})
    record = detail.record
    format_name = str(record.detail.get("format", "chat"))
    return Replay(record.requested_model, format_name, "\n\n".join(system), turns, is_whole)
