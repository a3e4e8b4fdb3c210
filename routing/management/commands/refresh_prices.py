"""refresh_prices: bring the prices that came from the price book to what it says today."""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from gateway.commands import JsonCommand
from gateway.http.jsonio import JsonObject, format_time
from routing.catalogue.load import wait_until_served
from routing.catalogue.pricebook import refresh_prices


class Command(JsonCommand):
    help = (
        "Bring endpoints loaded with `pricing: auto` to today's price of the offline price book "
        "(the package genai-prices). All of them change in one version of the catalogue; what was "
        "charged before keeps the price it was charged at. Prices set by hand are left alone. "
        "--check says what would change, writes nothing and ends with 1 where something would."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="say what would change and stop")
        parser.add_argument(
            "--wait", action="store_true", help="return when every web process serves the result"
        )

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        refresh = refresh_prices(check=options["check"])
        result: JsonObject = {
            "version": refresh.version,
            "effective_at": format_time(datetime.now(UTC))
            if refresh.drift and not options["check"]
            else None,
            "drift": [asdict(each) for each in refresh.drift],
            "unknown": [{"model": model, "tag": tag} for model, tag in refresh.unknown],
            "unchanged": refresh.unchanged,
        }
        if options["wait"] and not options["check"] and not wait_until_served(refresh.version):
            self.stderr.write(f"version {refresh.version} is not served everywhere yet")
            return result, 1
        return result, 1 if options["check"] and refresh.drift else 0

    def lines(self, result: JsonObject) -> Iterable[str]:
        for each in result["drift"]:
            yield f"{each['model']} at {each['tag']}"
            before, after = each["before"] or {}, each["after"]
            for key in dict.fromkeys([*before, *after]):
                if before.get(key) != after.get(key):
                    yield f"  {key}: {_format_price(before, key)} -> {_format_price(after, key)}"
        for each in result["unknown"]:
            yield f"not in the price book, keeps its price: {each['model']} at {each['tag']}"
        state = "changed" if result["effective_at"] else "differ"
        yield f"{len(result['drift'])} {state}, {result['unchanged']} as the book says"


def _format_price(pricing: JsonObject, key: str) -> str:
    value = pricing.get(key)
    if value is None:
        return "none"
    return f"{value}" if isinstance(value, str) else "other conditions"
