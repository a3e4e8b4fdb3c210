"""Reading presets: those of a key's scope, and the active ones for requests."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.models import Q

from accounts.caller import Caller
from accounts.models import Workspace
from gateway.database.db import Lane, run_queries
from gateway.http.errors import DatabaseGone, NotFound, SchemaInvalid
from gateway.http.jsonio import JsonObject, loads
from gateway.http.paging import Page
from gateway.http.validation import Issue
from gateway.ttl_cache import TtlCache
from routing.presets.merge import chat_defaults
from routing.presets.models import Preset, PresetVersion
from routing.presets.schema import CACHE_KEYS, is_slug


class PresetScope(NamedTuple):
    """The workspace whose presets a key reads and writes; None is the account's default one.
    `all_of_them`: a management key that names no workspace lists those of every workspace."""

    account_id: UUID
    workspace_id: UUID | None
    all_of_them: bool = False

    @property
    def workspace(self) -> Q:
        """The condition on workspaces."""
        wanted = Q(pk=self.workspace_id) if self.workspace_id else Q(is_default=True)
        return wanted & Q(account=self.account_id)

    @property
    def presets(self) -> Q:
        """The condition on presets."""
        owned = Q(account=self.account_id, workspace__deleted_at__isnull=True)
        if self.workspace_id:
            return owned & Q(workspace=self.workspace_id)
        return owned if self.all_of_them else owned & Q(workspace__is_default=True)


def resolve_scope(caller: Caller, query: Mapping[str, Any], *, lists: bool = False) -> PresetScope:
    """An inference key's own workspace, or the one that a management key's query names. Raises
    `SchemaInvalid`."""
    if not caller.management:
        return PresetScope(caller.account_id, caller.workspace_id)
    named = query.get("workspace_id")
    if named is None:
        return PresetScope(caller.account_id, None, all_of_them=lists)
    try:
        return PresetScope(caller.account_id, UUID(named))
    except ValueError:
        raise SchemaInvalid([Issue("workspace_id", "Invalid UUID")]) from None


# What a database's integer holds; a larger number is that of no version.
_VERSION_MAX = 2**31 - 1


def list_presets(scope: PresetScope, page: Page) -> tuple[list[Preset], int]:
    """One page, most recently updated first, and how many there are. Raises `NotFound` for a
    workspace that is not the account's."""
    rows = Preset.objects.filter(scope.presets)
    presets = list(rows.select_related("creator").order_by("-updated_at", "pk")[page.rows])
    total = rows.count()
    if total or not scope.workspace_id:
        return presets, total
    if not Workspace.objects.filter(scope.workspace).exists():
        raise NotFound
    return presets, total


def find_preset(scope: PresetScope, slug: str) -> Preset:
    """The preset of that slug with the version in force. Raises `NotFound`."""
    with_version = ("creator", "designated_version__creator")
    presets = Preset.objects.filter(scope.presets, slug=slug).select_related(*with_version)
    preset = presets.first()
    if preset is None:
        raise NotFound
    return preset


def list_versions(scope: PresetScope, slug: str, page: Page) -> tuple[list[PresetVersion], int]:
    """One page of a preset's versions, the first one first. Raises `NotFound`."""
    preset = Preset.objects.filter(scope.presets, slug=slug).only("pk").first()
    if preset is None:
        raise NotFound
    rows = PresetVersion.objects.select_related("creator").filter(preset=preset)
    return list(rows.order_by("version")[page.rows]), rows.count()


def find_version(scope: PresetScope, slug: str, number: int) -> PresetVersion:
    """That version of the preset. Raises `NotFound`."""
    version = (
        PresetVersion.objects.select_related("creator")
        .filter(
            preset__in=Preset.objects.filter(scope.presets, slug=slug),
            version=min(number, _VERSION_MAX),
        )
        .first()
    )
    if version is None:
        raise NotFound
    return version


# Bytes of presets that a process caches at most, and the least that an entry counts for.
_BYTES_MAX: Final = 16 * 1024 * 1024
_BYTES_MIN: Final = 1_024


class ActivePreset(NamedTuple):
    """An active preset with its designated version. `id` is the preset's; `caching` are its cache
    settings; `chat_defaults`: see the function of that name."""

    id: str
    config: JsonObject
    system_prompt: str
    size_bytes: int
    chat_defaults: JsonObject | None = None
    caching: JsonObject = {}

    @property
    def models(self) -> list[str]:
        """`model` and `models` of the preset."""
        first = [self.config["model"]] if "model" in self.config else []
        return [*first, *self.config.get("models", ())]


def find_active_preset(workspace_id: UUID, slug: str) -> ActivePreset | None:
    """The workspace's active preset of that slug. Raises `DatabaseGone`."""
    if not is_slug(slug):
        return None
    try:
        return _recent.find((workspace_id, slug))
    except (DatabaseError, InterfaceError) as error:
        raise DatabaseGone from error


def forget_active_presets() -> None:
    """Empty this process's cache of presets."""
    _recent.forget()


def _load_active(name: tuple[UUID, str]) -> ActivePreset | None:
    workspace_id, slug = name
    rows = Preset.objects.filter(
        workspace=workspace_id, slug=slug, status=Preset.Status.ACTIVE
    ).values_list("pk", "designated_version__config", "designated_version__system_prompt")
    row = run_queries(Lane.READ, rows.first)
    if row is None:
        return None
    preset_id, config, prompt = row
    size_bytes = len(config) + len(prompt)
    parsed = loads(config.encode())
    caching = {name: parsed[name] for name in CACHE_KEYS if name in parsed}
    return ActivePreset(
        str(preset_id), parsed, prompt, size_bytes, chat_defaults(parsed, prompt), caching
    )


_recent: TtlCache[tuple[UUID, str], ActivePreset] = TtlCache(
    _load_active,
    age_max_s=settings.API_KEY_CACHE_SECONDS,
    size_max=_BYTES_MAX,
    weight_of=lambda preset: max(_BYTES_MIN, preset.size_bytes if preset else 0),
)
