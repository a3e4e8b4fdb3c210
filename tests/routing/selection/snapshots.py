"""Snapshots made to measure, without a database."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from routing.entities.entries import ModelEntry, Snapshot
from tests.routing.selection.entries import endpoint, model


def priced_model(id: str, usd: str = "0.000001", **changes: Any) -> ModelEntry:
    """A model with one endpoint that costs this for a prompt token, and nothing else."""
    return replace(model(endpoint(pricing={"prompt": usd, "completion": "0"}), id=id), **changes)


def snapshot(models: Iterable[ModelEntry], **aliases: str) -> Snapshot:
    """A snapshot of the models; all that are visible are listed. `__` in an alias is a slash."""
    known = list(models)
    names: Mapping[str, str] = {name.replace("__", "/"): id for name, id in aliases.items()}
    listed = [each for each in known if each.visible and each.endpoints]
    return Snapshot(
        version=1,
        models=MappingProxyType({each.id: each for each in known}),
        aliases=MappingProxyType(names),
        providers=MappingProxyType({}),
        listing=tuple(sorted(listed, key=lambda each: (-each.created, each.id))),
        endpoint_count=sum(len(each.endpoints) for each in known),
    )
