"""`router:experimental__search_models`: models of the catalogue, by what is written of them."""

from collections.abc import Iterable
from typing import Final

from gateway.eventloop import run_in_thread
from gateway.http.jsonio import JsonObject
from routing.catalogue.listing import ListingRules, list_permitted, top_endpoint
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import ModelEntry
from routing.tools.interface import Definition, Result, ToolContext, ToolFailed
from routing.tools.texts import json_text

RESULTS_DEFAULT: Final = 5
_QUERY_CHARS_MAX: Final = 300
_WORDS_MAX: Final = 12
_DESCRIPTION_CHARS: Final = 300
_DEFINITION: Final = Definition(
    "search_models",
    "Searches the catalogue of models that can be called here, by name, id, maker, modality and "
    "description. Gives ids, context lengths and prices (USD per token).",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "Words to look for."}},
        "required": ["query"],
        "additionalProperties": False,
    },
)


class SearchModels:
    """The models that the caller's account may use."""

    time_s: float | None = None
    definition = _DEFINITION

    def __init__(self, parameters: JsonObject) -> None:
        self._most = int(parameters.get("max_results", RESULTS_DEFAULT))

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        query = arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            raise ToolFailed("query must be a text")
        words = query[:_QUERY_CHARS_MAX].lower().split()[:_WORDS_MAX]
        snapshot, caller = catalogue.current(), context.caller
        rules = ListingRules(
            allowed_providers=caller.allowed_providers,
            ignored_providers=caller.ignored_providers,
            guarded=caller.guard.rules if caller.guard else None,
        )
        found = run_in_thread(
            lambda: rank_models(list_permitted(snapshot, rules), words, self._most)
        )
        shown = [_serialize_model(model) for model in found]
        item = {"query": query, "arguments": json_text(arguments)}
        return Result(json_text({"models": shown}), item=item)


def rank_models(models: Iterable[ModelEntry], words: list[str], most: int) -> list[ModelEntry]:
    """Those that most of the words are found in; of equals the newer one, which comes first. One
    that none is found in is not among them."""
    scored = [(_score(model, words), model) for model in models]
    found = [pair for pair in scored if pair[0] > 0]
    return [model for _, model in sorted(found, key=lambda pair: -pair[0])[:most]]


def _score(model: ModelEntry, words: list[str]) -> int:
    """A word in the name counts for more than one in the description."""
    name = f"{model.id} {model.name}".lower()
    modes = " ".join((*model.input_modalities, *model.output_modalities, *model.categories))
    text = f"{modes} {model.description}".lower()
    return sum(10 if word in name else word in text for word in words)


def _serialize_model(model: ModelEntry) -> JsonObject:
    endpoint = top_endpoint(model)
    pricing = dict(endpoint.pricing or {}) if endpoint else {}
    return {
        "id": model.id,
        "name": model.name,
        "description": model.description[:_DESCRIPTION_CHARS],
        "context_length": model.context_length,
        "input_modalities": list(model.input_modalities),
        "output_modalities": list(model.output_modalities),
        "pricing": {name: pricing[name] for name in ("prompt", "completion") if name in pricing},
    }
