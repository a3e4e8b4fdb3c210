"""The playground: models, presets and interns side by side, asked with the person's own key."""

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_POST

from accounts.models import Workspace
from console.page import PageContext, page, render_page
from console.playground_keys import find_playground_key
from console.queries.keys import find_own_workspace, list_workspaces_for_keys
from console.queries.playground import Replay, find_replay, list_targets
from console.queries.snippets import choose_model
from gateway.http.errors import GatewayError
from gateway.http.jsonio import format_time


@page
def show_playground(request: HttpRequest, page: PageContext) -> HttpResponse:
    workspaces = list_workspaces_for_keys(page.scope)
    replay = find_replay(page.scope, request.GET["replay"]) if "replay" in request.GET else None
    chosen = _choose_workspace(request, page, workspaces)
    context = {
        "title": "Playground",
        "workspaces": workspaces,
        "chosen": chosen,
        "replay": replay,
        "replay_is_gone": "replay" in request.GET and replay is None,
        "data": {
            "targets": [each._asdict() for each in list_targets(page.scope, workspaces)],
            "root": request.build_absolute_uri("/").rstrip("/"),
            "start": _build_start(request, replay),
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


def _choose_workspace(
    request: HttpRequest, page: PageContext, workspaces: list[Workspace]
) -> Workspace | None:
    """The one that the address names, else that of the view, else the first."""
    by_id = {str(each.pk): each for each in workspaces}
    named = request.GET.get("workspace", "")
    first = workspaces[0] if workspaces else None
    return by_id.get(named) or by_id.get(page.scope.view.value) or first


def _build_start(request: HttpRequest, replay: Replay | None) -> dict[str, Any]:
    """What the page begins with."""
    if replay is not None:
        return {**replay._asdict(), "models": [replay.model]}
    models = [each for each in request.GET.getlist("model")[:4] if each]
    return {"models": models or [choose_model()]}
