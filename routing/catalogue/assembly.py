"""From the rows of the catalogue, read at one moment, to a snapshot.

Reading (`read_rows`, queries) and assembling (`assemble`, pure) are apart, because they run in
different threads of a web process.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import orjson
from django.db import connection, transaction
from gevent import sleep

from gateway.database.db import under_gevent
from gateway.http.jsonio import JsonObject
from gateway.limits.rules import build_rules
from gateway.sealing import UnsealError
from routing.catalogue.credentials import ProviderCredential, open_pooled
from routing.catalogue.models import Endpoint, Model, ModelAlias, Provider, open_credential
from routing.catalogue.version import current_version
from routing.entities.efforts import EffortRules
from routing.entities.entries import (
    EndpointEntry,
    HouseCredential,
    ModelEntry,
    ProviderEntry,
    Snapshot,
)
from routing.entities.prices import PriceError, Prices
from routing.entities.vocabulary import STATUS_DISABLED
from routing.selection.price_bands import PriceIndex
from routing.selection.resolution import newest_by_family

_CHUNK_ROWS = 500
PROVIDER_FIELDS = (
    *("pk", "slug", "name", "kind", "base_url", "credential_sealed"),
    *("connect_s", "first_byte_s", "idle_s", "total_s", "cache_lifetime_s"),
    *("privacy_policy_url", "terms_of_service_url", "status_page_url"),
    *("headquarters", "datacenters", "status"),
    *("collects_data", "zdr", "moderated", "supports_cancellation", "publishes_data"),
)
MODEL_FIELDS = (
    *("pk", "slug", "canonical_slug", "name", "description", "created", "family"),
    *("visible", "decisions", "decisions_temperature", "distillable", "context_length"),
    *("input_modalities", "output_modalities", "categories", "tokenizer", "instruct_type"),
    *("hugging_face_id", "knowledge_cutoff", "expiration_date", "default_parameters"),
    *("per_request_limits", "reasoning", "supported_voices", "first_byte_s"),
)
ENDPOINT_FIELDS = (
    *("pk", "model_id", "provider_id", "tag", "upstream_model", "context_length"),
    *("max_completion_tokens", "max_prompt_tokens", "quantization", "pricing"),
    *("supported_parameters", "extra_parameters", "supports_implicit_caching"),
    *("status", "tier", "region"),
    *("collects_data", "zdr", "moderated", "supports_cancellation", "publishes_data"),
    *("input_modalities", "output_modalities"),
    *("decisions_max_questions", "decisions_max_options", "decisions_max_levels"),
    "rate_limits",
)
CREDENTIAL_FIELDS = ("pk", "provider_id", "label", "sealed", "weight", "rate_limits")
# Of what is sealed its end: the authentication tag, which changes with the content.
_SEAL_MARK_CHARS: Final = 24


@dataclass(frozen=True, slots=True)
class Rows:
    """What stood in the tables at `version`, in the order of the `*_FIELDS` above."""

    version: int
    providers: list[tuple[Any, ...]]
    models: list[tuple[Any, ...]]
    aliases: list[tuple[Any, ...]]
    endpoints: list[tuple[Any, ...]]
    credentials: list[tuple[Any, ...]] = field(default_factory=list)


def read_rows() -> Rows:
    """All rows and their version at one moment, whatever changes meanwhile."""
    with _one_moment():
        return Rows(
            version=current_version(),
            providers=_fetch_rows(Provider.objects.order_by("pk").values_list(*PROVIDER_FIELDS)),
            models=_fetch_rows(Model.objects.order_by("pk").values_list(*MODEL_FIELDS)),
            aliases=_fetch_rows(
                ModelAlias.objects.order_by("pk").values_list("alias", "model__slug")
            ),
            endpoints=_fetch_rows(Endpoint.objects.order_by("pk").values_list(*ENDPOINT_FIELDS)),
            credentials=_fetch_rows(
                ProviderCredential.objects.order_by("pk").values_list(*CREDENTIAL_FIELDS)
            ),
        )


@contextmanager
def _one_moment() -> Iterator[None]:
    """A transaction in which all queries see the same state of the tables."""
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        # atomic() would begin IMMEDIATE and make the ledger's writer wait for a read.
        with connection.cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")
        try:
            yield
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ROLLBACK")
    else:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield


def _fetch_rows(rows: Any) -> list[tuple[Any, ...]]:
    """The rows; on PostgreSQL in pieces, between which other greenlets run."""
    cooperative = under_gevent() and connection.vendor != "sqlite"
    fetched: list[tuple[Any, ...]] = []
    for row in rows.iterator(chunk_size=_CHUNK_ROWS):
        fetched.append(row)
        if cooperative and len(fetched) % _CHUNK_ROWS == 0:
            sleep(0)
    return fetched


_T = TypeVar("_T")
_Priced: TypeAlias = tuple[Prices | None, Mapping[str, Any] | None]
_FLAGS: Final = ("collects_data", "zdr", "moderated", "supports_cancellation", "publishes_data")


def assemble(rows: Rows) -> Snapshot:
    """The snapshot of what was read. What cannot be used has no effect and is in `problems`."""
    snapshot = _Assembly(rows).snapshot()
    # Requests look things up in these; here they are built outside the event loop.
    snapshot.derive(PriceIndex)
    snapshot.derive(newest_by_family)
    return snapshot


class _Assembly:
    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.providers: dict[int, ProviderEntry] = {}
        self.flags: dict[int, dict[str, bool | None]] = {}
        self.problems: list[str] = []
        # Many endpoints share prices and parameters; one object of each is enough.
        self._prices: dict[bytes, _Priced] = {}
        self._sets: dict[tuple[str, ...], frozenset[str]] = {}
        self._words: dict[tuple[str, ...], tuple[str, ...]] = {}

    def snapshot(self) -> Snapshot:
        pools: dict[int, list[JsonObject]] = {}
        for row in self.rows.credentials:
            fields = dict(zip(CREDENTIAL_FIELDS, row, strict=True))
            pools.setdefault(fields.pop("provider_id"), []).append(fields)
        for row in self.rows.providers:
            fields = dict(zip(PROVIDER_FIELDS, row, strict=True))
            self._add_provider(fields, pools.get(fields["pk"], ()))
        endpoints: dict[int, list[JsonObject]] = {}
        for row in self.rows.endpoints:
            fields = dict(zip(ENDPOINT_FIELDS, row, strict=True))
            endpoints.setdefault(fields["model_id"], []).append(fields)
        models = [
            self._build_model(dict(zip(MODEL_FIELDS, row, strict=True)), endpoints)
            for row in self.rows.models
        ]
        listing = [
            model
            for model in models
            if model.visible
            and any(
                each.prices is not None and each.status > STATUS_DISABLED
                for each in model.endpoints
            )
        ]
        return Snapshot(
            version=self.rows.version,
            models=MappingProxyType({model.id: model for model in models}),
            aliases=MappingProxyType(dict(self.rows.aliases)),
            providers=MappingProxyType({entry.slug: entry for entry in self.providers.values()}),
            listing=tuple(sorted(listing, key=lambda model: (-model.created, model.id))),
            endpoint_count=len(self.rows.endpoints),
            problems=tuple(self.problems),
        )

    def _add_provider(self, fields: JsonObject, pool: Sequence[JsonObject]) -> None:
        self.flags[fields["pk"]] = {flag: fields.pop(flag) for flag in _FLAGS}
        sealed = fields.pop("credential_sealed")
        try:
            fields["credential"] = sealed and open_credential(sealed, slug=fields["slug"])
        except UnsealError as error:
            # A call without the credential it needs would only burn the caller's time.
            fields |= {"credential": None, "status": min(fields["status"], STATUS_DISABLED)}
            self.problems.append(f"provider {fields['slug']} is off: its credential {error}")
        if pool:
            opened = self._open_pool(fields["slug"], pool)
            fields["credentials"] = opened
            fields["credential"] = fields["credential"] or (opened[0].secret if opened else None)
            if not opened:
                fields["status"] = min(fields["status"], STATUS_DISABLED)
                self.problems.append(
                    f"provider {fields['slug']} is off: none of its credentials can be used"
                )
        fields["datacenters"] = self._tuple_or_none(fields["datacenters"])
        self.providers[fields["pk"]] = ProviderEntry(**fields)

    def _open_pool(self, slug: str, pool: Sequence[JsonObject]) -> tuple[HouseCredential, ...]:
        opened = []
        for row in pool:
            try:
                secret = open_pooled(row["sealed"], slug=slug, label=row["label"])
            except UnsealError as error:
                self.problems.append(f"credential {slug}/{row['label']} is not used: it {error}")
                continue
            if row["weight"]:
                opened.append(
                    HouseCredential(
                        pk=row["pk"],
                        provider=slug,
                        label=row["label"],
                        secret=secret,
                        seal_mark=row["sealed"][-_SEAL_MARK_CHARS:],
                        weight=row["weight"],
                        rate_rules=build_rules(f"credential:{row['pk']}", row["rate_limits"]),
                    )
                )
        return tuple(opened)

    def _build_model(
        self, fields: JsonObject, endpoints: dict[int, list[JsonObject]]
    ) -> ModelEntry:
        fields["id"] = fields.pop("slug")
        for key in ("input_modalities", "output_modalities", "categories"):
            fields[key] = self._tuple(fields[key])
        fields["supported_voices"] = self._tuple_or_none(fields["supported_voices"])
        entries = tuple(
            self._build_endpoint(own, fields) for own in endpoints.get(fields["pk"], ())
        )
        del fields["first_byte_s"]
        if fields["context_length"] is None:
            known = [entry.context_length for entry in entries if entry.context_length]
            fields["context_length"] = max(known, default=None)
        return ModelEntry(**fields, endpoints=entries)

    def _build_endpoint(self, own: JsonObject, model: JsonObject) -> EndpointEntry:
        provider_pk = own.pop("provider_id")
        provider = self.providers[provider_pk]
        for flag, inherited in self.flags[provider_pk].items():
            if own[flag] is None:
                own[flag] = inherited
        if own["publishes_data"] is None:
            # Unknown: an endpoint cannot publish what it does not collect.
            own["publishes_data"] = own["collects_data"]
        for key in ("input_modalities", "output_modalities"):
            own[key] = model[key] if own[key] is None else self._tuple(own[key])
        if own["context_length"] is None:
            own["context_length"] = model["context_length"]
        own["model_id"] = model["id"]
        own["status"] = min(own["status"], provider.status)
        taken = [*own["supported_parameters"], *own.pop("extra_parameters")]
        own["supported_parameters"] = self._set(own["supported_parameters"])
        own["taken_fields"] = self._set(taken)
        own["rate_rules"] = build_rules(f"endpoint:{own['pk']}", own.pop("rate_limits"))
        prices, pricing = self._parse_prices(own.pop("pricing"), own)
        reasoning = model["reasoning"] or {}
        supported, mandatory = reasoning.get("supported_efforts"), reasoning.get("mandatory", False)
        efforts = None
        if supported or mandatory:
            efforts = EffortRules(self._set(supported or ()), mandatory)
        return EndpointEntry(
            **own,
            canonical_slug=model["canonical_slug"],
            model_name=model["name"],
            distillable=model["distillable"],
            first_byte_s=model["first_byte_s"],
            decides=_find_deciding(own["supported_parameters"], model, provider.kind),
            efforts=efforts,
            provider=provider,
            prices=prices,
            pricing=pricing,
        )

    def _parse_prices(self, pricing: object, endpoint: JsonObject) -> _Priced:
        if pricing is None:
            return None, None
        key = orjson.dumps(pricing)
        if key not in self._prices:
            try:
                prices = Prices.parse(pricing)
                self._prices[key] = prices, MappingProxyType(prices.serialize())
            except PriceError as error:
                place = f"{endpoint['model_id']} at {endpoint['tag']}"
                self.problems.append(f"{place} has no price: {error}")
                return None, None
        return self._prices[key]

    def _tuple(self, words: Sequence[str]) -> tuple[str, ...]:
        return _intern(tuple(words), self._words, tuple)

    def _tuple_or_none(self, words: Sequence[str] | None) -> tuple[str, ...] | None:
        return None if words is None else self._tuple(words)

    def _set(self, words: Sequence[str]) -> frozenset[str]:
        return _intern(tuple(words), self._sets, frozenset)


def _intern(
    words: tuple[str, ...],
    known: dict[tuple[str, ...], _T],
    make: Callable[[tuple[str, ...]], _T],
) -> _T:
    if words not in known:
        known[words] = make(words)
    return known[words]


def _find_deciding(supported: frozenset[str], model: Mapping[str, Any], kind: str) -> str | None:
    """How an endpoint answers decisions, one of `DECIDING`; None if it does not."""
    if not model["decisions"]:
        return None
    if kind == "decisions":
        return "native"
    thinks = (model["reasoning"] or {}).get("mandatory", False)
    if not thinks and {"logprobs", "top_logprobs"} <= supported:
        return "logprobs"
    return None if supported.isdisjoint(("response_format", "structured_outputs")) else "schema"
