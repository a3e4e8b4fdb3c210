"""what_if: what would the requests of a period have cost under another policy?"""

import random
import sys
from argparse import ArgumentTypeError
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser
from django.db.models import Q
from django.utils.dateparse import parse_datetime

from accounts.models import Account
from gateway.commands import JsonCommand, Refused
from gateway.http.jsonio import JsonObject, dumps, format_time, usd
from routing.catalogue.snapshot import catalogue
from routing.formats.provider_preferences import ProviderPreferences
from routing.management.chat_argument import build_chat, json_object
from routing.metering.models import Generation
from routing.what_if import Comparison, GenerationRow, Side, change_policy, compare

_PORTION_ROWS = 500


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
        parser.add_argument("--limit", type=_count, help="at most so many, the newest first")
        parser.add_argument("--seed", type=int, default=0, help="of the draws of load balancing")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        wanted = json_object(options["provider_json"], "--provider-json")
        chat = build_chat({"model": "any/model", "provider": wanted})
        preferences = chat.provider or ProviderPreferences()
        until = options["until"] or datetime.now(UTC)
        dice = random.Random(options["seed"])  # noqa: S311 - Load balancing; guards nothing.
        comparison = compare(
            _load_rows(options["since"], until, options["account"], options["limit"]),
            catalogue.current(),
            partial(change_policy, wishes=preferences, named=wanted),
            random=dice.random,
        )
        period = {"since": format_time(options["since"]), "until": format_time(until)}
        return {**period, "policy": wanted, **_serialize_comparison(comparison)}, 0

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


def _serialize_comparison(comparison: Comparison) -> JsonObject:
    return {
        "generations": comparison.seen,
        "compared": comparison.compared,
        "moved": comparison.moved,
        "refused": _sort_by_count(comparison.refused),
        "not_replayed": _sort_by_count(comparison.not_replayed),
        "latency_known": comparison.latency_known,
        "before": {
            "charged": usd(comparison.charged_nano),
            **_serialize_side(comparison.before, comparison.latency_known),
        },
        "after": _serialize_side(comparison.after, comparison.latency_known),
    }


def _serialize_side(side: Side, latency_known: int) -> JsonObject:
    mean_s = round(side.latency_s / latency_known, 4) if latency_known else None
    return {
        "cost": usd(side.cost_nano),
        "latency_s": mean_s,
        "providers": _sort_by_count(side.providers),
        "models": _sort_by_count(side.models),
    }


def _sort_by_count(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _load_rows(
    since: datetime, until: datetime, account: str | None, limit: int | None
) -> Iterator[GenerationRow]:
    """Newest first, portion by portion: a period may hold millions, and a cursor over all of them
    would keep a transaction open (on SQLite one that the ledger waits for)."""
    rows = Generation.objects.filter(created_at__gte=since, created_at__lt=until, lost=False)
    if account is not None:
        try:
            rows = rows.filter(account=Account.objects.get(pk=account))
        except (Account.DoesNotExist, ValidationError):
            raise Refused(f"There is no account {account!r}") from None
    ordered = rows.order_by("-created_at", "-pk").values_list("pk", *GenerationRow._fields)
    behind, left = Q(), sys.maxsize if limit is None else limit
    while left > 0:
        portion = list(ordered.filter(behind)[: min(left, _PORTION_ROWS)])
        yield from (GenerationRow(*values) for _, *values in portion)
        if len(portion) < _PORTION_ROWS:
            return
        left -= len(portion)
        pk, created_at = portion[-1][:2]
        # The first condition is the one that the index serves.
        behind = Q(created_at__lte=created_at) & (Q(created_at__lt=created_at) | Q(pk__lt=pk))


def _parse_moment(text: str) -> datetime:
    """A moment in UTC; a date is its beginning."""
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None:
        raise ArgumentTypeError(f"not an ISO date or time: {text!r}")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
