"""The rows of the catalogue, read at one moment.

Reading (queries) and assembling (`routing.catalogue.assembly`, pure) are apart, because they run in
different threads of a web process.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from gevent import sleep

from gateway.database.db import under_gevent
from routing.catalogue.models import Endpoint, Model, ModelAlias, Provider
from routing.catalogue.version import current_version

_CHUNK_ROWS = 500
PROVIDER_FIELDS = (
    *("pk", "slug", "name", "kind", "base_url", "credential_sealed"),
    *("connect_s", "first_byte_s", "idle_s", "total_s"),
    *("privacy_policy_url", "terms_of_service_url", "status_page_url"),
    *("headquarters", "datacenters", "status"),
    *("collects_data", "zdr", "moderated", "supports_cancellation", "publishes_data"),
)
MODEL_FIELDS = (
    *("pk", "slug", "canonical_slug", "name", "description", "created", "family"),
    *("visible", "decisions", "decisions_temperature", "distillable", "context_length"),
    *("input_modalities", "output_modalities", "categories", "tokenizer", "instruct_type"),
    *("hugging_face_id", "knowledge_cutoff", "expiration_date", "default_parameters"),
    *("per_request_limits", "reasoning", "supported_voices"),
)
ENDPOINT_FIELDS = (
    *("pk", "model_id", "provider_id", "tag", "upstream_model", "context_length"),
    *("max_completion_tokens", "max_prompt_tokens", "quantization", "pricing"),
    *("supported_parameters", "extra_parameters", "supports_implicit_caching"),
    *("status", "tier", "region"),
    *("collects_data", "zdr", "moderated", "supports_cancellation", "publishes_data"),
    *("input_modalities", "output_modalities"),
    *("decisions_max_questions", "decisions_max_options", "decisions_max_levels"),
)


@dataclass(frozen=True, slots=True)
class Rows:
    """What stood in the tables at `version`, in the order of the `*_FIELDS` above."""

    version: int
    providers: list[tuple[Any, ...]]
    models: list[tuple[Any, ...]]
    aliases: list[tuple[Any, ...]]
    endpoints: list[tuple[Any, ...]]


def read_rows() -> Rows:
    """All rows and their version, of one moment however many changes go on beside."""
    with _one_moment():
        return Rows(
            version=current_version(),
            providers=_all(Provider.objects.order_by("pk").values_list(*PROVIDER_FIELDS)),
            models=_all(Model.objects.order_by("pk").values_list(*MODEL_FIELDS)),
            aliases=_all(ModelAlias.objects.order_by("pk").values_list("alias", "model__slug")),
            endpoints=_all(Endpoint.objects.order_by("pk").values_list(*ENDPOINT_FIELDS)),
        )


@contextmanager
def _one_moment() -> Iterator[None]:
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        with _deferred_transaction():
            yield
    else:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield


@contextmanager
def _deferred_transaction() -> Iterator[None]:
    # atomic() would begin IMMEDIATE and make the ledger's writer wait for a read.
    with connection.cursor() as cursor:
        cursor.execute("BEGIN DEFERRED")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ROLLBACK")


def _all(rows: Any) -> list[tuple[Any, ...]]:
    """The rows; on PostgreSQL in pieces, between which the event loop gets its turn."""
    cooperative = under_gevent() and connection.vendor != "sqlite"
    found: list[tuple[Any, ...]] = []
    for row in rows.iterator(chunk_size=_CHUNK_ROWS):
        found.append(row)
        if cooperative and len(found) % _CHUNK_ROWS == 0:
            sleep(0)
    return found
