"""Endpoints of models that make embeddings, at providers that speak chat completions beside.

Pure: what to send, how to read the answer."""

import math
import struct
from base64 import b64decode
from collections.abc import Sequence
from typing import Any, Final

from gateway.http.jsonio import JsonObject, dumps
from routing.entities.exchange import Answer, Native, Prompt, StreamReader, Terms, Wire, WireRequest
from routing.entities.vocabulary import EMBEDDINGS as KIND
from routing.upstreams.base import BearerWire, parse_answer, read_word
from routing.upstreams.failures import (
    UpstreamFailure,
    from_error_object,
    malformed_answer,
    unfit_answer,
)

PATH: Final = "/embeddings"
_PASSED: Final = ("input", "dimensions")
_FLOAT_BYTES: Final = 4


class Embeddings(BearerWire):
    """See `Wire`. A prompt's `original` has the inputs; an answer's `native` has its `vectors` in
    their order, each a list of numbers or base64 of 32-bit floats, which can say the same."""

    kind = KIND
    takes_budgets = False

    def request(self, prompt: Prompt, terms: Terms) -> WireRequest:
        assert prompt.original is not None
        # A quarter as long as numbers, whatever the caller reads; who ignores it writes numbers.
        body: JsonObject = {"model": terms.upstream_model, "encoding_format": "base64"}
        body |= {name: prompt.original[name] for name in _PASSED if name in prompt.original}
        if terms.user_hash is not None:
            body["user"] = terms.user_hash
        return WireRequest(PATH, self.headers(terms.credential, stream=False), dumps(body))

    def answer(self, body: bytes, content_type: str) -> Answer:
        value = parse_answer(body, content_type)
        if error := value.get("error"):
            raise from_error_object(error)
        vectors = _read_vectors(value.get("data"))
        if vectors is None:
            raise malformed_answer("no embeddings", raw=body[:_RAW_BYTES_MAX])
        usage = value.get("usage")
        if isinstance(usage, dict):
            # Nothing is completed, which some upstreams do not say; others say the total alone.
            prompt_tokens = usage.get("prompt_tokens")
            if prompt_tokens is None:
                prompt_tokens = usage.get("total_tokens")
            usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 0}
        return Answer(
            message={},
            native_finish="stop",
            logprobs=None,
            usage=usage,
            error=None,
            upstream_id=read_word(value.get("id")),
            system_fingerprint=None,
            service_tier=None,
            native=Native(KIND, "", b"", {"vectors": vectors}),
        )

    def reader(self) -> StreamReader:
        raise malformed_answer("embeddings are not streamed")


# Of vectors a failure shows the first.
_RAW_BYTES_MAX: Final = 2_000


def _read_vectors(data: Any) -> list[Any] | None:
    """By their indexes; None where one is missing or no vector."""
    if not isinstance(data, list) or not data:
        return None
    vectors: list[Any] = [None] * len(data)
    for place, each in enumerate(data):
        if not isinstance(each, dict):
            return None
        index, vector = each.get("index", place), each.get("embedding")
        if type(index) is not int or not 0 <= index < len(data) or not _is_vector(vector):
            return None
        vectors[index] = vector
    return None if any(vector is None for vector in vectors) else vectors


def _is_vector(vector: Any) -> bool:
    """Whether these are finite numbers that fit into 32 bits."""
    try:
        if isinstance(vector, list):
            numbers: Sequence[float] = vector
            struct.pack(f"<{len(vector)}f", *vector)
        else:
            raw = b64decode(vector, validate=True)
            numbers = struct.unpack(f"<{len(raw) // _FLOAT_BYTES}f", raw)
        # The sum is finite if all of them are: no number of 32-bit floats exceeds a 64-bit one.
        return bool(numbers) and math.isfinite(sum(numbers))
    except (TypeError, ValueError, OverflowError, struct.error):
        return False


def find_mismatch(
    answer: Answer, inputs: Sequence[int], asked: JsonObject | None
) -> UpstreamFailure | None:
    """What is wrong with the vectors of an answer to these inputs and this body."""
    assert answer.native is not None
    vectors = answer.native.value["vectors"]
    if len(vectors) != len(inputs):
        return malformed_answer(f"{len(vectors)} embeddings of {len(inputs)} inputs")
    lengths, wanted = set(map(_count_dimensions, vectors)), (asked or {}).get("dimensions")
    if len(lengths) > 1:
        return malformed_answer(f"embeddings with {sorted(lengths)} dimensions")
    if wanted is not None and lengths != {wanted}:
        (made,) = lengths
        return unfit_answer(f"The model makes embeddings with {made} dimensions, not {wanted}")
    return None


def _count_dimensions(vector: str | list[float]) -> int:
    if isinstance(vector, list):
        return len(vector)
    return (len(vector) * 3 // 4 - vector.count("=", -2)) // _FLOAT_BYTES


EMBEDDINGS: Final[Wire] = Embeddings()
