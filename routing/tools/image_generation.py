"""`router:image_generation`: a picture by a model that makes pictures."""

from typing import Any, Final

from gateway.http.jsonio import JsonObject
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import ModelEntry
from routing.tools.interface import Definition, Result, ToolContext, ToolFailed
from routing.tools.model_calls import require_text, user_message
from routing.tools.texts import json_text

_ABOUT: Final = (
    "Makes a picture from a description and shows it to the user. The picture is not returned."
)
_PARAMETERS: Final = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "description": "What the picture shows."}},
    "required": ["prompt"],
    "additionalProperties": False,
}


class ImageGeneration:
    """The caller's settings but `model` are the picture's own (`image_config`)."""

    # As long as the request may take.
    time_s: float | None = float("inf")
    definition = Definition("image_generation", _ABOUT, _PARAMETERS)

    def __init__(self, parameters: JsonObject) -> None:
        self._model = parameters.get("model")
        self._config = {name: each for name, each in parameters.items() if name != "model"}

    @staticmethod
    def is_available(parameters: JsonObject) -> bool:
        """Whether there is one to ask: the caller's, or any of the catalogue's."""
        named = parameters.get("model")
        if isinstance(named, str):
            model = catalogue.current().model(named)
            return model is None or _makes_images(model)
        return _find_image_model() is not None

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        prompt = require_text(arguments, "prompt")
        model = self._model or _find_image_model()
        if model is None:
            raise ToolFailed("No model makes pictures")
        body = {"model": model, "messages": [user_message(prompt)], "modalities": ["image", "text"]}
        answer = context.ask(body | ({"image_config": self._config} if self._config else {}))
        images = answer.message.get("images") or []
        if not images:
            raise ToolFailed("The model made no picture")
        place = images[0].get("image_url") if isinstance(images[0], dict) else None
        url = place.get("url") if isinstance(place, dict) else None
        fields = {"images": len(images), "model": answer.model}
        return Result(
            json_text({"status": "shown to the user", **fields}),
            item={
                "prompt": prompt,
                "model": answer.model,
                "result": url if isinstance(url, str) else None,
            },
            images=images,
        )


def _find_image_model() -> str | None:
    """The cheapest listed model that makes pictures."""
    listed = catalogue.current().listing
    able = [model for model in listed if _makes_images(model) and model.by_price]
    return min(able, key=_get_price).id if able else None


def _makes_images(model: ModelEntry) -> bool:
    return "image" in model.output_modalities


def _get_price(model: ModelEntry) -> Any:
    prices = model.by_price[0].prices
    assert prices is not None
    return prices.completion
