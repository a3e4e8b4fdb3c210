"""Loading a catalogue file: the changes to the rows are planned, then written in a transaction."""

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import transaction

from gateway.http.jsonio import JsonObject
from gateway.sealing import UnsealError
from routing.catalogue.credentials import ProviderCredential
from routing.catalogue.models import Endpoint, Model, ModelAlias, Provider
from routing.catalogue.pricebook import book_prices
from routing.catalogue.snapshot import STALE_S, list_served_versions
from routing.catalogue.spec import (
    CatalogueSpec,
    CredentialSpec,
    EndpointSpec,
    ModelSpec,
    ProviderSpec,
    parse_spec,
)
from routing.catalogue.version import CatalogueVersion, bump_version, current_version
from routing.entities.vocabulary import STATUS_DISABLED

Row = Provider | Model | Endpoint | ProviderCredential
_ENV: Final = "env:"


@dataclass
class CatalogueChanges:
    """Rows to create and rows to save, not yet written; the lists of names are for people."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    disabled: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    new: dict[type[Any], list[Any]] = field(default_factory=dict)
    touched: list[tuple[Row, list[str]]] = field(default_factory=list)
    aliases_gone: set[str] = field(default_factory=set)
    credentials_gone: list[int] = field(default_factory=list)

    @property
    def writes(self) -> bool:
        return bool(self.new or self.touched or self.aliases_gone or self.credentials_gone)

    def create(self, row: Row, name: str) -> None:
        self.new.setdefault(type(row), []).append(row)
        self.added.append(name)

    def save(self, row: Row, fields: list[str], name: str, *, also: bool = False) -> None:
        """Save the named fields; with `also` something else changed too."""
        if fields:
            self.touched.append((row, fields))
        (self.changed if fields or also else self.unchanged).append(name)


class _Planning:
    def __init__(self, spec: CatalogueSpec) -> None:
        self.spec = spec
        self.out = CatalogueChanges()
        self.providers = {row.slug: row for row in Provider.objects.all()}
        self.models = {row.slug: row for row in Model.objects.all()}
        rows = Endpoint.objects.select_related("model", "provider")
        self.endpoints = {(row.model.slug, row.tag): row for row in rows}
        self.aliases = dict(ModelAlias.objects.values_list("alias", "model__slug"))
        pooled = ProviderCredential.objects.select_related("provider")
        self.credentials = {(row.provider.slug, row.label): row for row in pooled}

    def plan(self, *, prune: bool) -> CatalogueChanges:
        self.out.errors = list(self._list_errors())
        if self.out.errors:
            return self.out
        for provider in self.spec.providers:
            self._plan_provider(provider)
        for at, model in enumerate(self.spec.models):
            self._plan_model(model, f"models[{at}]")
        if prune:
            named = {model.id: {end.tag for end in model.endpoints} for model in self.spec.models}
            providers = {provider.slug for provider in self.spec.providers}
            for slug, row in self.providers.items():
                if slug not in providers:
                    self._disable(row, "status", STATUS_DISABLED, f"provider {slug}")
            for slug, listed in self.models.items():
                if slug not in named and listed.visible:
                    self._disable(listed, "visible", False, f"model {slug}")
            for (slug, tag), end in self.endpoints.items():
                if tag not in named.get(slug, ()):
                    self._disable(end, "status", STATUS_DISABLED, f"endpoint {slug} at {tag}")
        return self.out

    def _list_errors(self) -> Iterator[str]:
        """Names that occur twice, unknown providers, and credentials that are not set."""
        spec, models = self.spec, list(enumerate(self.spec.models))
        yield from _name_repeats(
            (f"providers[{at}].slug", row.slug) for at, row in enumerate(spec.providers)
        )
        for at, provider in enumerate(spec.providers):
            yield from _name_repeats(
                (f"providers[{at}].credentials[{number}].label", each.label)
                for number, each in enumerate(provider.credentials)
            )
        ids = [(f"models[{at}].id", model.id) for at, model in models]
        aliases = [
            (f"models[{at}].aliases", each) for at, model in models for each in model.aliases
        ]
        yield from _name_repeats([*ids, *aliases])
        for at, model in models:
            yield from _name_repeats(
                (f"models[{at}].endpoints[{number}].tag", each.tag)
                for number, each in enumerate(model.endpoints)
            )
        known = {*self.providers, *(provider.slug for provider in self.spec.providers)}
        for at, model in enumerate(self.spec.models):
            for number, endpoint in enumerate(model.endpoints):
                if endpoint.provider not in known:
                    place = f"models[{at}].endpoints[{number}].provider"
                    yield f"{place}: no provider {endpoint.provider!r} here or in the database"
        for at, provider in enumerate(self.spec.providers):
            yield from _find_unset(provider.credential, f"providers[{at}].credential")
            for number, pooled in enumerate(provider.credentials):
                place = f"providers[{at}].credentials[{number}].credential"
                yield from _find_unset(pooled.credential, place)
                if pooled.credential is None and (
                    (provider.slug, pooled.label) not in self.credentials
                ):
                    yield f"{place}: none is stored for {pooled.label!r}, give one"

    def _plan_provider(self, spec: ProviderSpec) -> None:
        fields = spec.model_dump(exclude={"credential", "credentials"})
        row = self.providers.get(spec.slug)
        new = row is None
        row = row or Provider(slug=spec.slug)
        changed = _set_fields(row, fields) + _set_credential(row, spec)
        self.providers[spec.slug] = row
        self._plan_row(row, changed, f"provider {spec.slug}", new=new)
        if "credentials" not in spec.model_fields_set:
            # A file without the list keeps the pool.
            return
        for each in spec.credentials:
            pooled = self.credentials.get((spec.slug, each.label))
            new = pooled is None
            pooled = pooled or ProviderCredential(provider=row, label=each.label)
            fields = {"weight": each.weight, "rate_limits": each.rate_limits}
            changed = _set_fields(pooled, fields) + _set_secret(pooled, each)
            self._plan_row(pooled, changed, f"credential {spec.slug}/{each.label}", new=new)
        listed = {each.label for each in spec.credentials}
        for (slug, label), pooled in self.credentials.items():
            if slug == spec.slug and label not in listed:
                self.out.credentials_gone.append(pooled.pk)
                self.out.disabled.append(f"credential {slug}/{label}")

    def _plan_row(
        self, row: Row, changed: list[str], name: str, *, new: bool, also: bool = False
    ) -> None:
        if new:
            self.out.create(row, name)
        else:
            self.out.save(row, changed, name, also=also)

    def _plan_model(self, spec: ModelSpec, place: str) -> None:
        row = self.models.get(spec.id)
        new = row is None
        row = row or Model(slug=spec.id, created=int(time.time()))
        self.models[spec.id] = row
        changed = _set_fields(row, _list_model_fields(spec))
        wanted = set(spec.aliases)
        own = {alias for alias, slug in self.aliases.items() if slug == spec.id}
        named = {alias for other in self.spec.models for alias in other.aliases}
        moved = {alias for alias in wanted - own if alias in self.aliases}
        self.out.aliases_gone |= moved | (own - named)
        for alias in sorted(wanted - own):
            self.out.new.setdefault(ModelAlias, []).append(ModelAlias(alias=alias, model=row))
        self._plan_row(row, changed, f"model {spec.id}", new=new, also=wanted != own)
        for at, endpoint in enumerate(spec.endpoints):
            self._plan_endpoint(row, endpoint, f"{place}.endpoints[{at}]")

    def _plan_endpoint(self, model: Model, spec: EndpointSpec, place: str) -> None:
        name = f"endpoint {model.slug} at {spec.tag}"
        row = self.endpoints.get((model.slug, spec.tag))
        new = row is None
        row = row or Endpoint(model=model, provider=self.providers[spec.provider], tag=spec.tag)
        fields = spec.model_dump(exclude={"provider", "tag"})
        if spec.pricing == "auto":
            fields["pricing"] = book_prices(spec.provider, spec.upstream_model)
        if fields["pricing"] is None:
            where = "the price book has none" if spec.pricing == "auto" else "give pricing"
            self.out.warnings.append(f"{place}: {name} has no price and is not used; {where}")
        self._plan_row(row, _set_fields(row, fields), name, new=new)

    def _disable(self, row: Row, attribute: str, value: int, name: str) -> None:
        if getattr(row, attribute) > value:
            setattr(row, attribute, value)
            self.out.touched.append((row, [attribute]))
            self.out.disabled.append(name)


def _set_fields(row: Row, fields: JsonObject) -> list[str]:
    """Put the values on the row and name those that differ."""
    different = [name for name, value in fields.items() if getattr(row, name) != value]
    for name in different:
        setattr(row, name, fields[name])
    return different


def _list_model_fields(spec: ModelSpec) -> JsonObject:
    fields = spec.model_dump(exclude={"id", "aliases", "endpoints"})
    fields["canonical_slug"] = spec.canonical_slug or spec.id
    if spec.decisions is None:
        fields["decisions"] = bool({"text", "decisions"} & set(spec.output_modalities))
    if spec.created is None:
        # A file that does not say leaves the day the model was first loaded.
        del fields["created"]
    for name, value in (
        ("reasoning", spec.reasoning),
        ("per_request_limits", spec.per_request_limits),
    ):
        fields[name] = value and value.model_dump(exclude_unset=name == "reasoning")
    return fields


def _set_credential(row: Provider, spec: ProviderSpec) -> list[str]:
    """Absent in the file keeps what is stored; unchanged content is not sealed again."""
    if "credential" not in spec.model_fields_set:
        return []
    wanted = _read_secret(spec.credential)
    try:
        if row.credential() == wanted:
            return []
    except UnsealError:
        pass  # It was sealed under another master key; the file's content replaces it.
    row.set_credential(wanted)
    return ["credential_sealed"]


def _set_secret(row: ProviderCredential, spec: CredentialSpec) -> list[str]:
    """As `_set_credential`, for one of a pool."""
    wanted = _read_secret(spec.credential)
    if wanted is None:
        return []
    try:
        if row.sealed and row.secret() == wanted:
            return []
    except UnsealError:
        pass
    row.set_secret(wanted)
    return ["sealed", "masked"]


def _read_secret(text: str | None) -> str | None:
    """What stands in the file, or in the environment variable that it names."""
    is_named = text is not None and text.startswith(_ENV)
    return os.environ[text.removeprefix(_ENV)] if text is not None and is_named else text


def _find_unset(text: str | None, place: str) -> Iterator[str]:
    """The error of an environment variable that is named and not set."""
    name = (text or "").removeprefix(_ENV)
    if text is not None and text.startswith(_ENV) and not os.environ.get(name):
        yield f"{place}: the environment variable {name} is not set"


def _name_repeats(names: Iterable[tuple[str, str]]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for place, name in names:
        if name in seen:
            yield f"{place}: {name!r} already stands at {seen[name]}"
        seen.setdefault(name, place)


_BATCH_ROWS: Final = 500
_LOOK_AGAIN_S: Final = 0.1
# Long enough for the row of a killed process to go stale in the meantime.
WAIT_S: Final = STALE_S + 1


def load_catalogue(document: object, *, prune: bool = False, check: bool = False) -> JsonObject:
    """Bring the database to the state that the data of a catalogue file describes.

    Returns `version` and the lists `added`, `changed`, `disabled`, `unchanged`, `errors` and
    `warnings`. With errors, or with `check`, nothing is written.
    """
    spec, errors = parse_spec(document)
    if spec is None:
        return rejection_report(*errors)
    with transaction.atomic():
        # Two loads at once: the second compares with what the first has written.
        CatalogueVersion.objects.select_for_update().first()
        changes = _Planning(spec).plan(prune=prune)
        if changes.writes and not changes.errors and not check:
            with bump_version("default"):
                ModelAlias.objects.filter(alias__in=changes.aliases_gone).delete()
                ProviderCredential.objects.filter(pk__in=changes.credentials_gone).delete()
                for kind in (Provider, ProviderCredential, Model, ModelAlias, Endpoint):
                    if kind in changes.new:
                        kind.objects.bulk_create(changes.new[kind], batch_size=_BATCH_ROWS)
                for row, fields in changes.touched:
                    row.save(update_fields=fields)
        return _build_report(changes)


def rejection_report(*errors: str) -> JsonObject:
    """The report of a file that could not be parsed."""
    return _build_report(CatalogueChanges(errors=list(errors)))


def _build_report(changes: CatalogueChanges) -> JsonObject:
    names = ("added", "changed", "disabled", "unchanged", "errors", "warnings")
    lists = {name: getattr(changes, name) for name in names}
    return {"version": current_version(), **lists}


def wait_until_served(version: int, *, timeout_s: float = WAIT_S) -> bool:
    """Wait until every live web process serves `version` or a newer one; false when time is up."""
    deadline = time.monotonic() + timeout_s
    while any(served < version for served in list_served_versions().values()):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_AGAIN_S)
    return True
