"""The catalogue as the data of a file that loads back unchanged. Credentials stay out."""

from collections import defaultdict

from pydantic import BaseModel

from gateway.http.jsonio import JsonObject
from routing.catalogue.models import Endpoint, Model, Provider
from routing.catalogue.spec import EndpointSpec, ModelSpec, ProviderSpec


def dump_catalogue() -> JsonObject:
    """`{providers, models}` with what differs from a file's defaults."""
    endpoints: dict[int, list[JsonObject]] = defaultdict(list)
    for row in Endpoint.objects.select_related("provider").order_by("model", "pk"):
        endpoints[row.model_id].append(_endpoint(row))
    models = Model.objects.order_by("pk").prefetch_related("aliases")
    return {
        "providers": [_fields(row, ProviderSpec) for row in Provider.objects.order_by("pk")],
        "models": [_model(row, endpoints[row.pk]) for row in models],
    }


def _model(row: Model, endpoints: list[JsonObject]) -> JsonObject:
    fields = {"id": row.slug, **_fields(row, ModelSpec), "decisions": row.decisions}
    if aliases := [alias.alias for alias in row.aliases.all()]:
        fields["aliases"] = aliases
    return {**fields, "endpoints": endpoints}


def _endpoint(row: Endpoint) -> JsonObject:
    return {"provider": row.provider.slug, **_fields(row, EndpointSpec), "tier": row.tier}


def _fields(row: Provider | Model | Endpoint, spec: type[BaseModel]) -> JsonObject:
    """The row's columns that a file has a key for, without those at their default."""
    columns = {column.name for column in row._meta.concrete_fields} - {"provider", "model", "id"}
    names = [name for name in spec.model_fields if name in columns]
    values = {name: getattr(row, name) for name in names}
    return {
        name: value for name, value in values.items() if value != spec.model_fields[name].default
    }
