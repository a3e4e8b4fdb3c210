"""Print the catalogue as a file."""

from collections.abc import Iterable

from gateway.commands import JsonCommand
from gateway.http.jsonio import JsonObject
from routing.catalogue.files import dump, dump_catalogue


class Command(JsonCommand):
    help = (
        "Print the catalogue as YAML (JSON with --json) that load_catalogue reads back unchanged. "
        "Credentials are left out; loading keeps the stored ones of providers that exist."
    )

    def run(self, **options: object) -> tuple[JsonObject, int]:
        return dump_catalogue(), 0

    def lines(self, result: JsonObject) -> Iterable[str]:
        yield dump(result)
