"""Endpoints of models that make embeddings, at providers that speak chat completions beside.

What to send, and how to read the answer. It is read vector by vector, because all of a large one
take a third of a second, in which others get their turn."""

import math
import re
import struct
from base64 import b64decode
from collections.abc import Sequence
from typing import Any, Final

import orjson

from gateway.eventloop import yield_control
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
_VECTOR: Final = re.compile(rb'"embedding"\s*:\s*(["[])')
_ENDS: Final = {b"[": b"]", b'"': b'"'}
# Others get their turn after this many, which take 3 ms.
_BYTES_IN_A_ROW: Final = 131_072


class Embeddings(BearerWire):
    """See `Wire`. A prompt's `original` has the inputs. An answer's `native` has the `dimensions`
    of its vectors and its `vectors` in their order. Each is base64 (as a text) or the JSON of a
    list of numbers. The latter is bytes, because so many numbers take long to make and to free."""

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
        rest, found, dimensions = _take_vectors(body)
        value = parse_answer(rest, content_type)
        if error := value.get("error"):
            raise from_error_object(error)
        vectors = _read_vectors(value.get("data"), found)
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
            native=Native(KIND, "", b"", {"vectors": vectors, "dimensions": dimensions}),
        )

    def reader(self) -> StreamReader:
        raise malformed_answer("embeddings are not streamed")


# Of vectors a failure shows the first.
_RAW_BYTES_MAX: Final = 2_000


def _take_vectors(body: bytes) -> tuple[bytes, list[str | bytes], set[int]]:
    """An answer with the number of each vector, as `[0]`, in its place; the vectors, and how many
    dimensions they have. It ends at what are no finite numbers that fit into 32 bits."""
    pieces, vectors, lengths = list[bytes](), list[str | bytes](), set[int]()
    at = rested = 0  # Up to where it is read, and was when others last had their turn.
    while start := _VECTOR.search(body, at):
        end = body.find(_ENDS[start[1]], start.end()) + 1
        raw = body[start.end() - 1 : end]
        try:
            vector: Any = orjson.loads(raw)
            numbers: Sequence[float] = vector
            if is_list := isinstance(vector, list):
                struct.pack(f"<{len(vector)}f", *vector)
            else:
                decoded = b64decode(vector, validate=True)
                numbers = struct.unpack(f"<{len(decoded) // _FLOAT_BYTES}f", decoded)
        except (TypeError, ValueError, OverflowError, struct.error):
            break
        # The sum is finite if all of them are: no number of 32-bit floats exceeds a 64-bit one.
        if not numbers or not math.isfinite(sum(numbers)):
            break
        pieces += (body[at : start.start(1)], b"[%d]" % len(vectors))
        vectors.append(raw if is_list else vector)
        lengths.add(len(numbers))
        at = end
        if at - rested > _BYTES_IN_A_ROW:
            rested = at
            yield_control()
    return b"".join((*pieces, body[at:])), vectors, lengths


def _read_vectors(data: Any, found: list[str | bytes]) -> list[Any] | None:
    """By their indexes; None where one is missing."""
    if not isinstance(data, list) or not data or len(data) != len(found):
        return None
    vectors: list[Any] = [None] * len(data)
    for place, each in enumerate(data):
        if not isinstance(each, dict):
            return None
        index, number = each.get("index", place), each.get("embedding")
        if type(index) is not int or not 0 <= index < len(data) or number != [place]:
            return None
        vectors[index] = found[place]
    return None if any(vector is None for vector in vectors) else vectors


def find_mismatch(
    answer: Answer, inputs: Sequence[int], asked: JsonObject | None
) -> UpstreamFailure | None:
    """What is wrong with the vectors of an answer to these inputs and this body."""
    assert answer.native is not None
    vectors, lengths = answer.native.value["vectors"], answer.native.value["dimensions"]
    if len(vectors) != len(inputs):
        return malformed_answer(f"{len(vectors)} embeddings of {len(inputs)} inputs")
    wanted = (asked or {}).get("dimensions")
    if len(lengths) > 1:
        return malformed_answer(f"embeddings with {sorted(lengths)} dimensions")
    if wanted is not None and lengths != {wanted}:
        (made,) = lengths
        return unfit_answer(f"The model makes embeddings with {made} dimensions, not {wanted}")
    return None


EMBEDDINGS: Final[Wire] = Embeddings()
