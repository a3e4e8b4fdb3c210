"""what_if: what would the requests of a period have cost under another policy?"""

from argparse import ArgumentTypeError
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser
from django.utils.dateparse import parse_datetime

from accounts.models import Account
from gateway.commands import JsonCommand, Refused
from gateway.http.jsonio import JsonObject, dumps, format_time
from routing.catalogue.snapshot import catalogue
from routing.formats.provider_preferences import ProviderPreferences
from routing.management.chat_argument import build_chat, json_object
from routing.metering.models import Generation
from routing.views.what_if import serialize_comparison
from routing.what_if.period import Period, Rules, replay_period


class Command(JsonCommand):
    help = (
        "Replay the generations of a period under another policy and compare cost, expected time "
        "to the first token and the mix of providers. The keys of --provider-json replace those "
        "of each request, null as if it had not given them; other keys stay. Catalogue and prices "
        "are today's on both sides, statistics are those of each request. Nothing is called."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--since", required=True, type=_parse_moment, help="ISO date or time, UTC"
        )
        parser.add_argument(
            "--until", type=_parse_moment, help="ISO date or time, UTC; now if absent"
        )
        parser.add_argument("--account", help="only this account, by id")
        parser.add_argument("--provider-json", default="{}", help="the provider object to try")
        parser.add_argument("--limit", type=_parse_count, help="at most so many, the newest first")
        parser.add_argument("--seed", type=int, default=0, help="of the draws of load balancing")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        wanted = json_object(options["provider_json"], "--provider-json")
        chat = build_chat({"model": "any/model", "provider": wanted})
        preferences = chat.provider or ProviderPreferences()
        until = options["until"] or datetime.now(UTC)
        rows = Generation.objects.all()
        if (account := options["account"]) is not None:
            try:
                rows = rows.filter(account=Account.objects.get(pk=account))
            except (Account.DoesNotExist, ValidationError):
                raise Refused(f"There is no account {account!r}") from None
        period = Period(options["since"], until, rows, limit=options["limit"])
        rules = Rules(preferences, wanted, seed=options["seed"])
        comparison = replay_period(period, rules, catalogue.current())
        moments = {"since": format_time(period.since), "until": format_time(until)}
        return {**moments, "policy": wanted, **serialize_comparison(comparison)}, 0

    def lines(self, result: JsonObject) -> Iterable[str]:
        yield (
            f"{result['generations']} generations: {result['compared']} compared "
            f"({result['moved']} would go elsewhere), {sum(result['refused'].values())} would be "
            f"refused, {sum(result['not_replayed'].values())} not replayed"
        )
        yield from (f"  refused, {step}: {n}" for step, n in result["refused"].items())
        yield from (f"  not replayed, {why}: {n}" for why, n in result["not_replayed"].items())
        for name in ("before", "after"):
            side = result[name]
            latency = "unknown" if side["latency_s"] is None else f"{side['latency_s']} s"
            charged = f" (charged {dumps(side['charged']).decode()})" if "charged" in side else ""
            cost = dumps(side["cost"]).decode()
            yield f"{name}: {cost} USD{charged}, first token {latency}"
            for kind in ("providers", "models"):
                counts = side[kind].items()
                shares = (f"{each} {n / result['compared']:.1%}" for each, n in counts)
                yield f"  {kind}: {', '.join(shares) or '-'}"


def _parse_count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _parse_moment(text: str) -> datetime:
    """A moment in UTC; a date is its beginning."""
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None:
        raise ArgumentTypeError(f"not an ISO date or time: {text!r}")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
