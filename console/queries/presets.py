"""Presets of a view, their versions, what differs between two, and who uses them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
from django.db.models import QuerySet
from django.http import Http404

from accounts.models import ApiKey
from console.queries.keys import list_workspaces_for_keys
from console.scope import Scope, widen_scope
from console.words import Badge
from gateway.http.jsonio import JsonObject
from routing.metering.models import Generation
from routing.presets.models import Preset, PresetVersion

PAGE_ROWS: Final = 50
VERSIONS_MAX: Final = 100
# Who uses a preset is counted over so many of its newest requests.
USES_MAX: Final = 2_000
NEWEST_FIRST: Final = "-changed"
_ORDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("slug", "pk"),
    "-name": ("-slug", "-pk"),
    "changed": ("updated_at", "pk"),
    "-changed": ("-updated_at", "-pk"),
}
_TONES: Final = {Preset.Status.ACTIVE: "good", Preset.Status.DISABLED: "warn"}


class PresetPage(NamedTuple):
    """Rows in order, and where the next page begins (empty: nowhere)."""

    rows: list[Preset]
    next_cursor: str


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


def list_presets(scope: Scope, text: str, order: str, cursor: str = "") -> PresetPage:
    """Presets of the view's workspaces whose slug or name contains the text."""
    rows = _select(scope)
    if scope.view.workspace_ids is not None:
        rows = rows.filter(workspace__in=scope.view.workspace_ids)
    if text:
        rows = rows.filter(slug__icontains=text) | rows.filter(name__icontains=text)
    start = int(cursor) if cursor.isdecimal() and len(cursor) < 7 else 0
    # Instructions may be long, and no list shows them.
    rows = rows.defer("designated_version__system_prompt")
    ordered = rows.order_by(*_ORDERS.get(order, _ORDERS[NEWEST_FIRST]))
    found = list(ordered[start : start + PAGE_ROWS + 1])
    more = str(start + PAGE_ROWS) if len(found) > PAGE_ROWS else ""
    return PresetPage(found[:PAGE_ROWS], more)


def find_preset(seen: Scope, preset_id: UUID) -> tuple[Preset, Scope] | None:
    """The preset with the person's widest scope, if they may use it."""
    account_id = Preset.objects.filter(pk=preset_id).values_list("account_id", flat=True).first()
    if account_id is None:
        return None
    try:
        scope = widen_scope(seen, account_id)
    except Http404:
        return None
    preset = _select(scope).filter(pk=preset_id).first()
    return None if preset is None else (preset, scope)


def _select(scope: Scope) -> QuerySet[Preset]:
    """Whoever may have a key in a workspace may use and change its presets, as in the API."""
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
    settings = list(_compare_settings(left.settings, right.settings))
    return settings + list(_compare_lines(left.system_prompt, right.system_prompt))


def _compare_settings(left: JsonObject, right: JsonObject) -> Iterator[DiffLine]:
    for name in dict.fromkeys([*left, *right]):
        before = _write(left[name]) if name in left else None
        after = _write(right[name]) if name in right else None
        yield DiffLine(name, before, after, _name_change(before, after))


def _compare_lines(left: str, right: str) -> Iterator[DiffLine]:
    before, after = left.splitlines(), right.splitlines()
    name = "instructions"
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for at in range(max(b - a, d - c)):
            one = before[a + at] if a + at < b else None
            other = after[c + at] if c + at < d else None
            word = "same" if kind == "equal" else _name_change(one, other)
            yield DiffLine(name, one, other, word)
            name = ""


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
