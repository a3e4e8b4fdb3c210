"""`semantic-cache`: an answer that was given to a text which means the same."""

from typing import Any, Final

from gateway.http.jsonio import JsonObject
from gateway.live_settings import settings
from routing.formats.chat.request import ChatRequest
from routing.formats.plugins import SEMANTIC_MS, SEMANTIC_THRESHOLD, SEMANTIC_TTL_S
from routing.plugins.interface import AnswerSearch, Plugin
from routing.response_cache.cached_answers import Entry
from routing.response_cache.near_answers import (
    NOT_NEAR,
    find_near_answer,
    normalize,
    split_last_text,
    store_near_answer,
)

ID: Final = "semantic-cache"
_PLACES: Final = 4


class SemanticCache(Plugin):
    """The last user text is embedded by a request of its own; everything else must be the same."""

    may_answer = True

    def __init__(self, given: JsonObject) -> None:
        super().__init__(given)
        # Where the answer of this request is to be kept.
        self._group: str | None = None
        self._vector: tuple[float, ...] | None = None

    def find_answer(self, chat: ChatRequest, search: AnswerSearch) -> Entry | None:
        split, sent = split_last_text(chat.body), split_last_text(search.body)
        if split is None or sent is None or not split[0].strip() or not _is_plain(chat):
            return None
        if not settings.ROUTER_RESPONSE_CACHE_ENABLED:
            return None
        timeout_s = self.settings.get("timeout_ms", SEMANTIC_MS) / 1000
        embedded = search.embed(self.settings["model"], split[0], timeout_s)
        vector = None if embedded.vector is None else normalize(embedded.vector)
        self.facts[ID] = {
            "result": "failed",
            "embedding_id": embedded.generation_id,
            "embedding_cost_nano": embedded.cost_nano,
            "error_type": embedded.error_type,
        }
        if vector is None:
            return self._report(None)
        group = search.name(sent[1], split[1])
        threshold = self.settings.get("threshold", SEMANTIC_THRESHOLD)
        near = NOT_NEAR if search.is_anew else find_near_answer(group, vector, threshold)
        facts: dict[str, Any] = {"result": "miss" if near.entry is None else "hit"}
        if near.similarity > -1:
            facts["similarity"] = round(near.similarity, _PLACES)
        self._group, self._vector = group, vector
        if near.entry is not None:
            facts |= {"age_s": near.entry.age_s, "source_id": near.entry.generation_id}
        self.facts[ID] |= facts
        return self._report(near.entry)

    def keep_answer(self, entry: Entry) -> None:
        if self._group is not None and self._vector is not None:
            ttl_s = self.settings.get("ttl_s", SEMANTIC_TTL_S)
            store_near_answer(self._group, self._vector, entry._replace(ttl_s=ttl_s))

    def answer_headers(self) -> dict[str, str]:
        facts = self.facts.get(ID)
        if facts is None:
            return {}
        headers = {"X-Router-Semantic-Cache": facts["result"].upper()}
        if "similarity" in facts:
            headers["X-Router-Semantic-Similarity"] = str(facts["similarity"])
        return headers

    def _report(self, entry: Entry | None) -> Entry | None:
        """Add the stage of the pipeline, and return the entry."""
        facts = {name: each for name, each in self.facts[ID].items() if each is not None}
        self.facts[ID], summary = facts, facts["result"]
        if "similarity" in facts:
            summary += f", similarity {facts['similarity']}"
        self.stages.append({"type": "plugin", "name": ID, "summary": summary, "data": facts})
        return entry


def _is_plain(chat: ChatRequest) -> bool:
    """Whether nothing but texts decides about the answer: no media, no tools that the gateway or an
    upstream runs, and no results of tools."""
    return not (
        chat.media_parts
        or chat.server_tools
        or chat.native_tools
        or any(message["role"] in ("tool", "function") for message in chat.body["messages"])
    )
