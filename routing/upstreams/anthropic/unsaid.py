"""What a request says in the words of chat and not in its own body: a preset may, where messages
have no word for it or leave the form of it to the endpoint."""

from typing import Any, Final

from routing.entities.exchange import Prompt, Terms
from routing.upstreams.anthropic.schemas import closed
from routing.upstreams.anthropic.thinking import thinking_of
from routing.upstreams.anthropic.translated import cannot_think, fit_to_thinking

_SCHEMA: Final = frozenset({"response_format", "structured_outputs"})


def put_unsaid(
    sent: dict[str, Any], original: dict[str, Any], prompt: Prompt, terms: Terms
) -> None:
    """Add the reasoning, the effort and the schema that the caller's own body is silent about, and
    take out the mark of the cache where only marked blocks are to be cached."""
    own: dict[str, Any] = original.get("output_config") or {}
    unsaid: dict[str, Any] = {}
    if "thinking" not in original and own.get("effort") is None:
        unsaid |= _put_thinking(sent, original, prompt, terms)
    if own.get("format") is None and (schema := _schema(prompt, terms)) is not None:
        unsaid["format"] = {"type": "json_schema", "schema": closed(schema)}
    if (prompt.body.get("prompt_cache_options") or {}).get("mode") == "explicit":
        sent.pop("cache_control", None)
    if unsaid:
        sent["output_config"] = {**sent.get("output_config", {}), **unsaid}


def _put_thinking(
    sent: dict[str, Any], original: dict[str, Any], prompt: Prompt, terms: Terms
) -> dict[str, Any]:
    """The effort, which goes with the thinking or stands for how much is said."""
    wanted = thinking_of(prompt, terms, sent["max_tokens"])
    if wanted.thinking is not None and not (wanted.is_on and cannot_think(sent)):
        sent["thinking"] = wanted.thinking
        if wanted.is_on:
            fit_to_thinking(sent)
    effort = wanted.effort
    if effort is None and "verbosity" in terms.supported and "verbosity" not in original:
        effort = prompt.body.get("verbosity")
    return {} if effort is None else {"effort": effort}


def _schema(prompt: Prompt, terms: Terms) -> dict[str, Any] | None:
    wanted = prompt.body.get("response_format") or {}
    if wanted.get("type") != "json_schema" or not terms.supported & _SCHEMA:
        return None
    schema: dict[str, Any] | None = wanted["json_schema"].get("schema")
    return schema
