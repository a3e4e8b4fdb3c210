"""Moderations: a text is of a category whose word stands in it."""

from routing.simulator.encoding import JsonObject

CATEGORIES = ("harassment", "hate", "illicit", "self-harm", "sexual", "violence")
_FOUND, _NOT_FOUND = 0.9, 0.01


def moderate(body: JsonObject) -> JsonObject:
    """The answer to a body with an `input`, which is a text or a list of texts."""
    given = body.get("input")
    texts = given if isinstance(given, list) else [given]
    return {"id": "modr-simulated", "model": body.get("model"), "results": list(map(_judge, texts))}


def _judge(text: object) -> JsonObject:
    categories = {name: name in str(text).lower() for name in CATEGORIES}
    scores = {name: _FOUND if is_so else _NOT_FOUND for name, is_so in categories.items()}
    return {
        "flagged": any(categories.values()),
        "categories": categories,
        "category_scores": scores,
    }
