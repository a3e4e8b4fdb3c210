"""Presets in force, as requests find them: read in one query, remembered for less than a second."""

from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from gateway.database.db import Lane, run_queries
from gateway.http.errors import DatabaseGone
from gateway.http.jsonio import loads
from gateway.ttl_cache import TtlCache
from routing.presets.keys import CACHE
from routing.presets.merging import laid_on_chat
from routing.presets.models import Preset
from routing.presets.slugs import is_slug

# Bytes of what presets say that a process remembers at most, and what the smallest counts for.
_BYTES_MAX: Final = 16 * 1024 * 1024
_BYTES_MIN: Final = 1_024


class InForce(NamedTuple):
    """A preset's designated version. `id` is the preset's, as records have it; `size_bytes` is that
    of its texts; `caching` is what it says of that; for `laid` see `laid_on_chat`."""

    id: str
    config: dict[str, Any]
    system_prompt: str
    size_bytes: int
    laid: dict[str, Any] | None = None
    caching: dict[str, Any] = {}

    @property
    def models(self) -> list[str]:
        """The models it names, the first one first."""
        first = [self.config["model"]] if "model" in self.config else []
        return [*first, *self.config.get("models", ())]


def find_preset(workspace_id: UUID, slug: str) -> InForce | None:
    """The workspace's active preset of that slug. Raises `DatabaseGone`."""
    if not is_slug(slug):
        return None
    try:
        return _recent.find((workspace_id, slug))
    except (DatabaseError, InterfaceError, TimeoutError) as error:
        raise DatabaseGone from error


def forget_presets() -> None:
    """Drop what this process remembers of presets."""
    _recent.forget()


def _read(name: tuple[UUID, str]) -> InForce | None:
    return run_queries(Lane.READ, lambda: _designated(*name))


def _designated(workspace_id: UUID, slug: str) -> InForce | None:
    row = (
        Preset.objects.filter(workspace=workspace_id, slug=slug, status=Preset.Status.ACTIVE)
        .values_list("pk", "designated_version__config", "designated_version__system_prompt")
        .first()
    )
    if row is None:
        return None
    preset_id, config, prompt = row
    size_bytes = len(config) + len(prompt)
    said = loads(config.encode())
    caching = {name: said[name] for name in CACHE if name in said}
    return InForce(str(preset_id), said, prompt, size_bytes, laid_on_chat(said, prompt), caching)


def _weight(found: InForce | None) -> int:
    return max(_BYTES_MIN, found.size_bytes if found else 0)


_recent: TtlCache[tuple[UUID, str], InForce] = TtlCache(
    _read,
    age_max_s=settings.API_KEY_CACHE_SECONDS,
    size_max=_BYTES_MAX,
    weight_of=_weight,
)
