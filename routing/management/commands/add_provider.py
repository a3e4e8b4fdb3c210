"""Add a real provider and the models it serves."""

import argparse
import getpass
import sys
from collections.abc import Iterable
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gateway.commands import JsonCommand, Refused
from gateway.http.jsonio import JsonObject
from routing.catalogue.spec import Slug, Url
from routing.entities.prices import PriceError, Prices
from routing.providers.discovery import KNOWN, DiscoveryError, KnownProvider, NoModelList
from routing.providers.probes import TOTAL_S
from routing.providers.services import add_provider, find_kind
from routing.upstreams.wires import CHAT_KINDS

_HELP = f"""
Add a provider: read its key, ask it for its models, price and enable them.

Well-known: {", ".join(KNOWN)}.
Any other server (vLLM, llama.cpp, Ollama, a hosted one) needs --base-url, and --kind where it
speaks another wire format than chat completions:

  manage.py add_provider openai
  manage.py add_provider anthropic
  manage.py add_provider local --base-url http://127.0.0.1:11434/v1 --no-input --free

The key comes from the provider's usual environment variable (OPENAI_API_KEY, …), from --key-env, or
from a prompt that does not show it; it is stored encrypted. Prices come from the offline price
book. A model without a price is stored disabled, because it could not be billed: give it one in the
admin, in a catalogue file, or for all such models here with --price or --free. Run again, the
command adds what is new and changes nothing else. When the provider refuses the key, nothing is
stored.

What models take of log-probabilities, tools and JSON schemas is found out by one tiny call each,
where neither the provider nor its name tells it; --no-probe assumes it. Models that do not chat,
by what the provider says or by what they are called, are left out; --model names the ones to add,
also where the provider does not list any.
"""


class Command(JsonCommand):
    help = _HELP

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: object) -> Any:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        return parser

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "provider", type=_parse_slug, help="a well-known name, or one of your own"
        )
        parser.add_argument(
            "--base-url",
            type=_parse_url,
            help="what stands before /chat/completions, /messages or /responses",
        )
        parser.add_argument("--kind", choices=sorted(CHAT_KINDS), help="the wire format it speaks")
        parser.add_argument("--name", help="display name of a provider that is not well-known")
        parser.add_argument("--key-env", metavar="NAME", help="environment variable with the key")
        parser.add_argument(
            "--model",
            metavar="NAME",
            action="append",
            default=[],
            help="add this model alone, by the provider's name for it; may be given again",
        )
        parser.add_argument(
            "--no-probe", action="store_true", help="call no model to find out what it takes"
        )
        parser.add_argument("--no-input", action="store_true", help="never prompt for the key")
        prices = parser.add_mutually_exclusive_group()
        prices.add_argument(
            "--price",
            type=_parse_price,
            metavar="PROMPT/COMPLETION",
            help="USD per million tokens of models the price book does not know; 0/0 is free",
        )
        prices.add_argument(
            "--free",
            dest="price",
            action="store_const",
            const=_parse_price("0/0"),
            help="they cost nothing",
        )

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        slug, base_url = options["provider"], options["base_url"]
        known = KNOWN.get(slug)
        if known is None and base_url is None:
            raise Refused(
                f"{slug} is not well-known: give its --base-url (known: {', '.join(KNOWN)})"
            )
        provider = KnownProvider(
            slug=slug,
            name=options["name"] or (known.name if known else slug),
            base_url=base_url or (known.base_url if known else ""),
            key_env=options["key_env"] or (known.key_env if known else ""),
            kind=options["kind"] or find_kind(slug) or (known.kind if known else "openai"),
        )
        key = _read_key(provider, no_input=options["no_input"], key_env=options["key_env"])
        try:
            added = add_provider(
                provider,
                key,
                pricing=options["price"],
                named=options["model"],
                probe_s=0 if options["no_probe"] else TOTAL_S,
            )
        except NoModelList as error:
            raise Refused(f"{error}; name its models with --model; nothing was stored") from error
        except DiscoveryError as error:
            raise Refused(f"{error}; nothing was stored") from error
        return {"provider": provider.slug, **asdict(added)}, 0

    def lines(self, result: JsonObject) -> Iterable[str]:
        for name in result["enabled"]:
            outcomes = result["probed"].get(name, {})
            text = ", ".join(f"{probe} {outcome}" for probe, outcome in outcomes.items())
            yield f"enabled {name}" + (f" ({text})" if text else "")
        yield from (f"no price, not enabled: {name}" for name in result["unpriced"])
        yield from (f"not a chat model: {name}" for name in result["skipped"])
        if result["unpriced"]:
            yield (
                "Models without a price are not served: run this again with --price "
                "PROMPT/COMPLETION (USD per million tokens) or --free, or price them in the admin."
            )
        yield (
            f"{result['provider']}: {len(result['enabled'])} enabled, "
            f"{len(result['unpriced'])} without a price, {len(result['kept'])} as before"
        )


def _read_key(provider: KnownProvider, *, no_input: bool, key_env: str | None) -> str | None:
    """The key, or None for a server of one's own that wants none."""
    key = provider.key() if provider.key_env else None
    if key is None and key_env:
        raise Refused(f"the environment variable {key_env} is not set")
    if key is None and not no_input and sys.stdin.isatty():
        key = getpass.getpass(f"API key of {provider.name} (not shown): ").strip() or None
    if key is None and provider.slug in KNOWN:
        raise Refused(f"{provider.name} needs a key: set {KNOWN[provider.slug].key_env}")
    return key


def _parse_slug(text: str) -> str:
    return _validate(Slug, text, "expected a slug such as my-server")


def _parse_url(text: str) -> str:
    return _validate(Url, text, "expected a URL that begins with http:// or https://").rstrip("/")


def _validate(kind: Any, text: str, problem: str) -> str:
    try:
        value: str = TypeAdapter(kind).validate_python(text)
    except ValidationError:
        raise argparse.ArgumentTypeError(problem) from None
    return value


def _parse_price(text: str) -> dict[str, str]:
    prompt, _, completion = text.partition("/")
    try:
        million = Prices.parse({"prompt": prompt, "completion": completion})
    except PriceError as error:
        raise argparse.ArgumentTypeError(f"expected PROMPT/COMPLETION: {error}") from None
    each = {key: getattr(million, key) / Decimal(1_000_000) for key in ("prompt", "completion")}
    return {key: f"{amount:f}" for key, amount in each.items()}
