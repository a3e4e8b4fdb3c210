"""Presets and versions as the API lists and finds them."""

from django.db.models import QuerySet

from accounts.models import Workspace
from gateway.http.errors import NotFound
from gateway.http.paging import Page
from routing.presets.models import Preset, PresetVersion
from routing.presets.places import Place

# What a database's integer holds; a larger number is that of no version.
_VERSION_MAX = 2**31 - 1


def page_of_presets(place: Place, page: Page) -> tuple[list[Preset], int]:
    """One page, most recently updated first, and how many there are. Raises `NotFound` for a
    workspace that is not the account's."""
    rows = Preset.objects.filter(place.presets)
    shown = rows.select_related("creator").order_by("-updated_at", "pk")[page.rows]
    found, total = list(shown), rows.count()
    if not total and place.workspace_id and not _workspace_is_there(place):
        raise NotFound
    return found, total


def _workspace_is_there(place: Place) -> bool:
    return Workspace.objects.filter(place.workspace).exists()


def find_preset(place: Place, slug: str) -> Preset:
    """The preset of that slug with the version in force. Raises `NotFound`."""
    with_version = ("creator", "designated_version__creator")
    found = Preset.objects.filter(place.presets, slug=slug).select_related(*with_version).first()
    if found is None:
        raise NotFound
    return found


def page_of_versions(place: Place, slug: str, page: Page) -> tuple[list[PresetVersion], int]:
    """One page of a preset's versions, the first one first. Raises `NotFound`."""
    preset = Preset.objects.filter(place.presets, slug=slug).only("pk").first()
    if preset is None:
        raise NotFound
    rows = _versions().filter(preset=preset)
    return list(rows.order_by("version")[page.rows]), rows.count()


def find_version(place: Place, slug: str, number: int) -> PresetVersion:
    """That version of the preset. Raises `NotFound`."""
    presets = Preset.objects.filter(place.presets, slug=slug)
    wanted = _versions().filter(preset__in=presets, version=min(number, _VERSION_MAX))
    found = wanted.first()
    if found is None:
        raise NotFound
    return found


def _versions() -> QuerySet[PresetVersion]:
    return PresetVersion.objects.select_related("creator")
