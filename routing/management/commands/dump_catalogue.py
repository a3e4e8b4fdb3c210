"""Print the catalogue as a file."""

from collections import defaultdict
from collections.abc import Iterable

from pydantic import BaseModel

from gateway.commands import JsonCommand
from gateway.http.jsonio import JsonObject
from routing.catalogue.credentials import ProviderCredential
from routing.catalogue.files import dump
from routing.catalogue.models import Endpoint, Model, Provider
from routing.catalogue.spec import CredentialSpec, EndpointSpec, ModelSpec, ProviderSpec


class Command(JsonCommand):
    help = (
        "Print the catalogue as YAML (JSON with --json) that load_catalogue reads back unchanged. "
        "Credentials are left out; loading keeps the stored ones of providers that exist."
    )

    def run(self, **options: object) -> tuple[JsonObject, int]:
        return dump_catalogue(), 0

    def lines(self, result: JsonObject) -> Iterable[str]:
        yield dump(result)


def dump_catalogue() -> JsonObject:
    """The catalogue as data that loads back unchanged: `{providers, models}` without defaults and
    without credentials."""
    endpoints: dict[int, list[JsonObject]] = defaultdict(list)
    for row in Endpoint.objects.select_related("provider").order_by("model", "pk"):
        fields = _list_fields(row, EndpointSpec)
        endpoints[row.model_id].append({"provider": row.provider.slug, **fields, "tier": row.tier})
    models: list[JsonObject] = []
    for model in Model.objects.order_by("pk").prefetch_related("aliases"):
        fields = _list_fields(model, ModelSpec)
        entry = {"id": model.slug, **fields, "decisions": model.decisions}
        if aliases := [alias.alias for alias in model.aliases.all()]:
            entry["aliases"] = aliases
        models.append({**entry, "endpoints": endpoints[model.pk]})
    providers = []
    for provider in Provider.objects.order_by("pk").prefetch_related("credentials"):
        entry = _list_fields(provider, ProviderSpec)
        if pool := [_list_fields(each, CredentialSpec) for each in provider.credentials.all()]:
            entry["credentials"] = pool
        providers.append(entry)
    return {"providers": providers, "models": models}


def _list_fields(
    row: Provider | Model | Endpoint | ProviderCredential, spec: type[BaseModel]
) -> JsonObject:
    """The row's columns that a file has a key for, without those at their default."""
    columns = {column.name for column in row._meta.concrete_fields} - {"provider", "model", "id"}
    names = [name for name in spec.model_fields if name in columns]
    values = {name: getattr(row, name) for name in names}
    return {
        name: value for name, value in values.items() if value != spec.model_fields[name].default
    }
