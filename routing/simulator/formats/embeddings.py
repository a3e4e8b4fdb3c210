"""Embeddings: vectors in which texts that are alike are near each other."""

import math
from array import array
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from routing.simulator.answer import SimulatedAnswer
from routing.simulator.encoding import JsonObject, write_event
from routing.simulator.formats import chat
from routing.simulator.formats.base import Complaint, SimulatedStream
from routing.simulator.formats.chat import ChatSpeaker
from routing.simulator.prompt import NO_CACHE, CacheUse, PromptCache

DIMENSIONS = 256
GRAM_CHARS = 3
# A token is as long as one of a text.
CHARS_PER_TOKEN = 4
WORD_WEIGHT = 2.0


def embed(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """Words and their pieces of three letters, each counted in a place of its own. Numbers are
    rounded to 32-bit floats, so that both encodings say the same."""
    vector = [0.0] * DIMENSIONS
    # Nothing cancels it out, so that no vector is all zeros.
    vector[0] = 1e-3
    for piece, weight in list_pieces(text.lower()):
        digest = blake2b(piece.encode("utf-8", "replace"), digest_size=3).digest()
        vector[int.from_bytes(digest[:2]) % DIMENSIONS] += weight if digest[2] & 1 else -weight
    shorter = vector[:dimensions]
    length = math.sqrt(sum(number * number for number in shorter)) or 1.0
    return list(array("f", [number / length for number in shorter]))


def list_pieces(text: str) -> Iterator[tuple[str, float]]:
    for word in text.split():
        yield word, WORD_WEIGHT
        padded = f"^{word}$"
        for at in range(len(padded) - GRAM_CHARS + 1):
            yield padded[at : at + GRAM_CHARS], 1.0


def read_inputs(given: Any) -> Sequence[str | list[int]]:
    return [given] if isinstance(given, str) or type(given[0]) is int else given


def is_input(given: Any) -> bool:
    if not isinstance(given, list):
        return isinstance(given, str) and given != ""
    return bool(given) and all(type(each) is int or is_input(each) for each in given)


class SimulatedEmbeddings:
    name = "embeddings"
    speaker = ChatSpeaker
    error = staticmethod(chat.build_error)

    def read_request(self, body: JsonObject) -> JsonObject:
        texts = [
            each if isinstance(each, str) else "x" * CHARS_PER_TOKEN * len(each)
            for each in read_inputs(body["input"])
        ]
        messages = [{"role": "user", "content": text} for text in texts]
        return {"model": body.get("model"), "messages": messages}

    def complaint(self, headers: Mapping[str, str], body: JsonObject) -> Complaint | None:
        if not is_input(body.get("input")):
            return Complaint(400, "The input is a text, tokens or a list of such.", param="input")
        dimensions = body.get("dimensions", DIMENSIONS)
        if type(dimensions) is not int or not 1 <= dimensions <= DIMENSIONS:
            return Complaint(400, f"At most {DIMENSIONS} dimensions.", param="dimensions")
        return None

    def use_cache(self, cache: PromptCache, persona: str, body: JsonObject) -> CacheUse:
        return NO_CACHE

    def document(self, body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
        data = []
        for index, given in enumerate(read_inputs(body["input"])):
            text = given if isinstance(given, str) else " ".join(map(str, given))
            vector: Any = embed(text, body.get("dimensions", DIMENSIONS))
            if body.get("encoding_format") == "base64":
                vector = b64encode(array("f", vector).tobytes()).decode()
            data.append({"object": "embedding", "index": index, "embedding": vector})
        document: JsonObject = {"object": "list", "model": answer.model, "data": data}
        usage = answer.usage
        if isinstance(usage, dict) and "prompt_tokens" in usage:
            usage = dict.fromkeys(("prompt_tokens", "total_tokens"), usage["prompt_tokens"])
        return document if usage is None else {**document, "usage": usage}

    def stream(self, body: JsonObject, answer: SimulatedAnswer) -> SimulatedStream:
        """There are no streams; who asks for one gets the document as its only event."""
        return SimulatedStream(opening=self.event(self.document(body, answer)))

    def build_hollow(
        self, body: JsonObject, answer: SimulatedAnswer
    ) -> tuple[JsonObject, list[bytes]]:
        document = {**self.document(body, answer), "data": []}
        return document, [self.event(document)]

    def event(self, value: object) -> bytes:
        return write_event("", value)

    def build_broken(self, body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
        return chat.FAILURE
