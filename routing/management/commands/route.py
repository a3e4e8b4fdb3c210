"""route: which endpoints would a request be tried at, and why not at the others?"""

import random
from typing import Any

from django.core.management.base import CommandParser

from gateway.commands import JsonCommand, Refused
from gateway.http.errors import GatewayError, MalformedJson
from gateway.http.jsonio import loads
from routing.catalogue.entries import EndpointEntry
from routing.catalogue.snapshot import catalogue
from routing.formats.chat.request import ChatInvalid, parse_chat
from routing.pipeline import ask_of, resolved, strategy_of
from routing.selection.select import select


class Command(JsonCommand):
    help = (
        "Print the endpoints that a chat request would be tried at, in order, without calling any. "
        "--explain adds every endpoint that is left out and the step that removed it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--model", required=True, help="model id or alias")
        parser.add_argument("--body-json", default="{}", help="further fields of the request body")
        parser.add_argument("--explain", action="store_true", help="say what was left out and why")
        parser.add_argument("--seed", type=int, help="fixes the draw of load balancing")

    def run(self, **options: Any) -> tuple[dict[str, Any], int]:
        chat = _request(options["model"], options["body_json"])
        try:
            models = resolved(catalogue.current(), chat.candidates)
        except GatewayError as error:
            raise Refused(error.text) from error
        dice = random.Random(options["seed"])  # noqa: S311 - Load balancing; guards nothing.
        plan = select(models, ask_of(chat), stable=_well, random=dice.random)
        result: dict[str, Any] = {
            "order": [_named(each) for each in plan.order],
            "strategy": strategy_of(chat.candidates, models),
        }
        if options["explain"]:
            removed = [{**_named(each.endpoint), "step": each.step} for each in plan.removed]
            result["removed"] = removed
        return result, 0


def _request(model: str, body_json: str) -> Any:
    try:
        body = loads(body_json.encode())
    except MalformedJson as error:
        raise Refused("--body-json is no JSON") from error
    if not isinstance(body, dict):
        raise Refused("--body-json is no object")
    body = {"messages": [{"role": "user", "content": ""}]} | body | {"model": model}
    try:
        return parse_chat(body, session_header=None)
    except ChatInvalid as error:
        raise Refused(str(error)) from error


def _well(endpoint: EndpointEntry) -> bool:
    """A command sees no traffic, so every endpoint counts as stable."""
    return True


def _named(endpoint: EndpointEntry) -> dict[str, str]:
    return {
        "model": endpoint.model_id,
        "tag": endpoint.tag,
        "provider": endpoint.provider.name,
    }
