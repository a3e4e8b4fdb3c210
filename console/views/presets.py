"""Presets: the list, and one with its versions, which of them is in force, and who uses it."""

from functools import partial
from typing import Final
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.services.records import operator_actor
from console.page import PageContext, page, render_page
from console.queries.presets import (
    NEWEST_FIRST,
    compare_versions,
    describe_model,
    describe_status,
    find_preset,
    list_presets,
    list_uses,
    list_versions,
)
from console.scope import Scope
from console.table import Column, Table, csv_response, read_pages, render_table
from routing.presets.models import Preset, PresetVersion
from routing.presets.services import change_preset

COLUMNS: Final = (
    Column("Preset", lambda row: row.slug, link=lambda row: _link(row), order="name"),
    Column("Status", describe_status, "badge"),
    Column("In force", lambda row: f"version {row.designated_version.version}"),
    Column("Of", lambda row: row.latest_version, "count", detail=True),
    Column("Model", lambda row: describe_model(row.designated_version)),
    Column("Workspace", lambda row: row.workspace.name, detail=True),
    Column("Made by", lambda row: row.creator.username if row.creator else None, minor=True),
    Column("Changed", lambda row: row.updated_at, "time", order="changed"),
)
USE_COLUMNS: Final = (
    Column("Key", lambda use: use.key.name if use.key else "deleted"),
    Column(
        "Person",
        lambda use: use.key.creator.username if use.key and use.key.creator else None,
        detail=True,
    ),
    Column("Requests", lambda use: use.requests, "count"),
    Column("Spent", lambda use: use.spent_nano, "usd"),
    Column("Last", lambda use: use.last_at, "time"),
)


@page
def show_presets(request: HttpRequest, page: PageContext) -> HttpResponse:
    text = request.GET.get("text", "")
    order = request.GET.get("order", NEWEST_FIRST)
    load_page = partial(list_presets, page.scope, text, order)
    if request.GET.get("csv"):
        return csv_response("presets", COLUMNS, read_pages(load_page))
    found = load_page(request.GET.get("cursor", ""))
    table = Table(COLUMNS, found.rows, "Presets", order, found.next_cursor)
    context = {
        "title": "Presets",
        "text": text,
        "is_empty": not found.rows,
        "table": render_table(request, table),
    }
    return render_page(request, page, "console/presets.html", context)


@page
def show_preset(request: HttpRequest, page: PageContext, preset_id: UUID) -> HttpResponse:
    preset, _ = _find(page, preset_id)
    uses = list_uses(page.scope, preset, page.period.start(page.now))
    if request.GET.get("csv"):
        return csv_response("preset-use", USE_COLUMNS, uses.rows)
    versions = list_versions(preset)
    left, right = _choose_pair(request, versions, preset)
    context = {
        "title": preset.slug,
        "nav": "Presets",
        "preset": preset,
        "status": describe_status(preset),
        "model": describe_model(preset.designated_version),
        "versions": versions,
        "left": left,
        "right": right,
        "lines": compare_versions(left, right),
        "uses": uses,
        "use_table": render_table(request, Table(USE_COLUMNS, uses.rows, "Who uses it")),
    }
    return render_page(request, page, "console/preset.html", context)


@require_POST
@page
def activate_version(request: HttpRequest, page: PageContext, preset_id: UUID) -> HttpResponse:
    """Put one of its versions into force."""
    preset, _ = _find(page, preset_id)
    number = request.POST.get("version", "")
    version = next((v for v in list_versions(preset) if str(v.version) == number), None)
    if version is None:
        raise Http404
    changes = {"designated_version_id": version.pk}
    change_preset(preset_id=preset.pk, by=operator_actor(request.user), changes=changes)
    text = f"Version {version.version} is in force: requests get it within a second."
    messages.success(request, text)
    return HttpResponseRedirect(_link(preset))


def _choose_pair(
    request: HttpRequest, versions: list[PresetVersion], preset: Preset
) -> tuple[PresetVersion, PresetVersion]:
    """The two that the address names, else the one in force beside the newest other one."""
    by_number = {str(version.version): version for version in versions}
    in_force = preset.designated_version
    others = [version for version in versions if version.pk != in_force.pk]
    newest = others[0] if others else in_force
    pair = sorted((in_force, newest), key=lambda version: version.version)
    return (
        by_number.get(request.GET.get("left", ""), pair[0]),
        by_number.get(request.GET.get("right", ""), pair[1]),
    )


def _find(page: PageContext, preset_id: UUID) -> tuple[Preset, Scope]:
    found = find_preset(page.scope, preset_id)
    if found is None:
        raise Http404
    return found


def _link(preset: Preset) -> str:
    return reverse("console:preset", args=[preset.pk])
