"""Presets: the list, and one with its versions, what differs between two, and who uses it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.models import ApiKey
from accounts.services.records import operator_actor
from console.listing import Filter, Listing, has_words
from console.page import PageContext, page, render_page
from console.queries.keys import list_workspaces_for_keys
from console.queries.paging import Page, cut_page
from console.scope import Scope, widen_scope
from console.table import Column
from console.words import Badge
from routing.metering.models import Generation
from routing.presets.models import Preset, PresetVersion
from routing.presets.services import change_preset

PAGE_ROWS: Final = 50
VERSIONS_MAX: Final = 100
# The users of a preset are counted over this many of its newest requests.
USES_MAX: Final = 2_000
NEWEST_FIRST: Final = "-changed"
_ORDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("slug", "pk"),
    "-name": ("-slug", "-pk"),
    "changed": ("updated_at", "pk"),
    "-changed": ("-updated_at", "-pk"),
}
_TONES: Final = {Preset.Status.ACTIVE: "good", Preset.Status.DISABLED: "warn"}
COLUMNS: Final = (
    Column("Preset", lambda row: row.slug, link=lambda row: _link(row), order="name"),
    Column("Status", lambda row: describe_status(row), "badge"),
    Column("In force", lambda row: f"version {row.designated_version.version}"),
    Column("Of", lambda row: row.latest_version, "count", detail=True),
    Column("Model", lambda row: describe_model(row.designated_version)),
    Column("Workspace", lambda row: row.workspace.name, detail=True),
    Column("Made by", lambda row: row.creator.username if row.creator else None, minor=True),
    Column("Changed", lambda row: row.updated_at, "time", order="changed"),
)
USE_COLUMNS: Final = (
    Column("Key", lambda use: use.key.name if use.key else "deleted", order="key"),
    Column(
        "Person",
        lambda use: use.key.creator.username if use.key and use.key.creator else None,
        detail=True,
    ),
    Column("Requests", lambda use: use.requests, "count", order="requests"),
    Column("Spent", lambda use: use.spent_nano, "usd", order="spent"),
    Column("Last", lambda use: use.last_at, "time", order="last"),
)


@page
def show_presets(request: HttpRequest, page: PageContext) -> HttpResponse:
    filters = [Filter("text", "Name")]
    listing = Listing[Preset](request, COLUMNS, "Presets", filters=filters, order=NEWEST_FIRST)
    listing.load(partial(list_presets, page.scope, listing.wanted["text"], listing.order))
    if listing.is_csv:
        return listing.respond()
    context = {"title": "Presets", "list": listing}
    return render_page(request, page, "console/presets.html", context)


@page
def show_preset(request: HttpRequest, page: PageContext, preset_id: UUID) -> HttpResponse:
    preset = find_preset(page.scope, preset_id)
    uses = list_uses(page.scope, preset, page.period.start(page.now))
    filters = [Filter("text", "Key", has_words(lambda use: use.key.name if use.key else ""))]
    listing = Listing[PresetUse](request, USE_COLUMNS, "Preset use", filters=filters)
    listing.load_whole(uses.rows)
    if listing.is_csv:
        return listing.respond()
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
        "list": listing,
    }
    return render_page(request, page, "console/preset.html", context)


@require_POST
@page
def activate_version(request: HttpRequest, page: PageContext, preset_id: UUID) -> HttpResponse:
    """Put one of its versions into force."""
    preset = find_preset(page.scope, preset_id)
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


class DiffLine(NamedTuple):
    """A line of two versions beside each other. `kind` is `same`, `changed`, `added` or
    `removed`; a side that has nothing is None."""

    name: str
    left: str | None
    right: str | None
    kind: str


class PresetUse(NamedTuple):
    """What one key did with a preset."""

    key: ApiKey | None
    requests: int
    spent_nano: int
    last_at: datetime


class PresetUses(NamedTuple):
    """Uses, the most requests first. `is_whole` is false where older requests were left out."""

    rows: list[PresetUse]
    is_whole: bool


def list_presets(scope: Scope, text: str, order: str, cursor: str = "") -> Page[Preset]:
    """Presets of the view's workspaces whose slug or name contains the text."""
    rows = _select(scope)
    if scope.view.workspace_ids is not None:
        rows = rows.filter(workspace__in=scope.view.workspace_ids)
    if text:
        rows = rows.filter(slug__icontains=text) | rows.filter(name__icontains=text)
    # Instructions may be long, and no list shows them.
    rows = rows.defer("designated_version__system_prompt")
    return cut_page(rows.order_by(*_ORDERS.get(order, _ORDERS[NEWEST_FIRST])), cursor, PAGE_ROWS)


def find_preset(seen: Scope, preset_id: UUID) -> Preset:
    """The preset, in whichever account. Raises `Http404` where the person may not use it."""
    account_id = Preset.objects.filter(pk=preset_id).values_list("account_id", flat=True).first()
    if account_id is None:
        raise Http404
    return get_object_or_404(_select(widen_scope(seen, account_id)), pk=preset_id)


def _select(scope: Scope) -> QuerySet[Preset]:
    """People who may have a key in a workspace may use and change its presets, as in the API."""
    rows = Preset.objects.filter(workspace__in=list_workspaces_for_keys(scope))
    return rows.select_related("workspace", "creator", "designated_version__creator")


def list_versions(preset: Preset) -> list[PresetVersion]:
    """The newest of its versions, the newest first. Their texts are read where they are asked for:
    of two."""
    rows = PresetVersion.objects.filter(preset=preset).select_related("creator")
    rows = rows.defer("config", "system_prompt")
    return list(rows.order_by("-version")[:VERSIONS_MAX])


def describe_status(preset: Preset) -> Badge:
    return Badge(_TONES.get(Preset.Status(preset.status), "plain"), preset.status)


def describe_model(version: PresetVersion) -> str:
    """The models that a version names, the first one first."""
    config = version.settings
    names = [config.get("model"), *(config.get("models") or [])]
    return ", ".join(dict.fromkeys(name for name in names if isinstance(name, str)))


def compare_versions(left: PresetVersion, right: PresetVersion) -> list[DiffLine]:
    """Settings by their names, then the instructions line by line."""
    lines = []
    old, new = left.settings, right.settings
    for name in dict.fromkeys([*old, *new]):
        one = _write(old[name]) if name in old else None
        other = _write(new[name]) if name in new else None
        lines.append(DiffLine(name, one, other, _name_change(one, other)))
    before, after = left.system_prompt.splitlines(), right.system_prompt.splitlines()
    name = "instructions"
    for _, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for at in range(max(b - a, d - c)):
            one = before[a + at] if a + at < b else None
            other = after[c + at] if c + at < d else None
            lines.append(DiffLine(name, one, other, _name_change(one, other)))
            name = ""
    return lines


def _name_change(before: str | None, after: str | None) -> str:
    if before == after:
        return "same"
    if before is None:
        return "added"
    return "removed" if after is None else "changed"


def _write(value: Any) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def list_uses(scope: Scope, preset: Preset, start: datetime) -> PresetUses:
    """Keys whose requests named the preset since then, as far as the view sees them."""
    rows = scope.filter(Generation.objects.filter(preset_id=str(preset.pk), created_at__gte=start))
    newest = rows.order_by("-created_at").values_list("api_key_id", "charge_nano", "created_at")
    found: Sequence[tuple[int, int, datetime]] = list(newest[: USES_MAX + 1])
    sums: dict[int, list[Any]] = {}
    for key_id, charge_nano, at in found[:USES_MAX]:
        counted = sums.setdefault(key_id, [0, 0, at])
        counted[0] += 1
        counted[1] += charge_nano
    keys = ApiKey.objects.select_related("creator").in_bulk(sums)
    uses = [PresetUse(keys.get(key_id), *counted) for key_id, counted in sums.items()]
    uses.sort(key=lambda use: use.requests, reverse=True)
    return PresetUses(uses, len(found) <= USES_MAX)


def _link(preset: Preset) -> str:
    return reverse("console:preset", args=[preset.pk])
