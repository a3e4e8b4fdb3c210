"""Embeddings as a caller format: OpenAI's wire. Here are the schema of a body, the request that it
means, and how vectors are written."""

import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

import orjson
from orjson import Fragment
from pydantic import AfterValidator, Field, ValidationError
from typing_extensions import TypedDict

from gateway.eventloop import run_in_thread, yield_control
from gateway.http.errors import GatewayError, InvalidRequest
from gateway.http.jsonio import JsonObject, dumps
from gateway.http.responses import error_body
from gateway.http.validation import list_issues
from routing.entities.ids import EMBEDDINGS_PREFIX, tool_call_id
from routing.entities.vocabulary import EMBEDDINGS as KIND
from routing.formats.caller import AnswerIdentity, CallerFormat, CompleteAnswer, StreamWriter
from routing.formats.chat.request import (
    ChatInvalid,
    ChatRequest,
    build_translated_request,
    find_header_issues,
    find_models_issues,
)
from routing.formats.chat.schema import Metadata, Trace
from routing.formats.fields import ONE_KIND, REQUIRED, WHOLE, NonEmpty, tolerant_checker
from routing.formats.provider_preferences import ProviderField

INPUTS_MAX: Final = 2_048
_DIMENSIONS_MAX: Final = 65_536
_FLOAT_BYTES: Final = 4
_CHARS_PER_TOKEN: Final = 4
# Others get their turn after this many vectors, which take 4 ms where they have 3,072 dimensions.
_VECTORS_IN_A_ROW: Final = 8
_JOINED_BYTES_MAX: Final = 4_194_304

TokenId = Annotated[int, Field(ge=0, le=2**31 - 1)]
Tokens = Annotated[list[TokenId], Field(min_length=1)]


def _check_inputs(inputs: list[Any]) -> list[Any]:
    kinds = {type(each) for each in inputs}
    if len(kinds) > 1:
        raise ValueError("Invalid input: expected texts, tokens or lists of tokens")
    if len(inputs) > INPUTS_MAX and int not in kinds:
        raise ValueError(f"Too big: expected array to have <={INPUTS_MAX} items")
    return inputs


Inputs = Annotated[
    list[Annotated[NonEmpty | TokenId | Tokens, ONE_KIND]],
    Field(min_length=1),
    AfterValidator(_check_inputs),
]


class EmbeddingsBody(TypedDict, total=False):
    """Every named parameter; keys without a rule are allowed and ignored."""

    model: Annotated[NonEmpty, REQUIRED]
    models: list[NonEmpty]
    input: Annotated[NonEmpty | Inputs, ONE_KIND, REQUIRED]
    dimensions: Annotated[int, Field(ge=1, le=_DIMENSIONS_MAX), WHOLE]
    encoding_format: Literal["float", "base64"]
    provider: ProviderField | None
    preset: str
    user: str
    metadata: Metadata
    trace: Trace


check_embeddings = tolerant_checker(EmbeddingsBody)

_SAME_FIELDS: Final = ("model", "models", "user", "metadata", "trace")


def list_inputs(given: Any) -> Sequence[str | list[int]]:
    """What each vector is made of: texts or tokens."""
    return [given] if isinstance(given, str) or type(given[0]) is int else given


def build_messages(inputs: Sequence[str | list[int]]) -> list[JsonObject]:
    """The texts as what a user says; tokens say nothing that anybody could read."""
    texts = [each for each in inputs if isinstance(each, str)]
    parts = [{"type": "text", "text": text} for text in texts]
    return [{"role": "user", "content": parts or ""}]


def read_input(body: Mapping[str, Any]) -> Any:
    """The texts that such messages say, as an `input`."""
    return [part["text"] for part in body["messages"][0]["content"]]


def has_tokens(chat: ChatRequest) -> bool:
    """Whether embeddings of tokens are asked for, which nobody can read here."""
    assert chat.original is not None
    return not all(isinstance(each, str) for each in list_inputs(chat.original["input"]))


class EmbeddingsFormat:
    """See `CallerFormat`. What an upstream said is `native`; nothing is translated to it."""

    name = KIND
    wire = KIND
    id_prefix = EMBEDDINGS_PREFIX
    api_type = "embeddings"
    finishing_errors: frozenset[str] = frozenset()
    new_call_id = staticmethod(tool_call_id)

    def parse(
        self,
        body: JsonObject,
        *,
        session_header: str | None,
        models_max: int,
        beside: JsonObject | None = None,
    ) -> ChatRequest:
        try:
            body, checked = check_embeddings(body)
        except ValidationError as error:
            raise ChatInvalid(list_issues(error) + find_header_issues(session_header)) from None
        if issues := find_models_issues(body, models_max) + find_header_issues(session_header):
            raise ChatInvalid(issues)
        inputs = list_inputs(body["input"])
        chat: JsonObject = {name: body[name] for name in _SAME_FIELDS if name in body}
        chat |= {
            "provider": checked.get("provider"),
            "messages": build_messages(inputs),
            **(beside or {}),
        }
        request = build_translated_request(
            chat, session_header=session_header, format=self.name, original=body
        )
        request.output_modalities, request.max_output_tokens = frozenset({KIND}), 0
        tokens = sum(len(each) for each in inputs if not isinstance(each, str))
        request.text_bytes += tokens
        request.prompt_text_chars += tokens * _CHARS_PER_TOKEN
        request.input_chars = tuple(
            len(each) if isinstance(each, str) else len(each) * _CHARS_PER_TOKEN for each in inputs
        )
        return request

    def write_answer(self, answer: CompleteAnswer) -> JsonObject:
        served, ending, request = answer.served, answer.ending, answer.request
        assert ending.native is not None
        assert request.original is not None
        write = _write_base64 if request.original.get("encoding_format") == "base64" else _write
        data = []
        for index, vector in enumerate(ending.native.value["vectors"]):
            if index % _VECTORS_IN_A_ROW == _VECTORS_IN_A_ROW - 1:
                yield_control()
            item = {"object": "embedding", "index": index, "embedding": write(vector)}
            data.append(dumps(item))
        usage = ending.usage
        body: JsonObject = {
            "object": "list",
            "data": data,
            "model": served.model,
            "usage": {name: usage[name] for name in _USAGE},
            "id": served.generation_id,
            "provider": served.provider,
        }
        if ending.router_metadata is not None:
            body["router_metadata"] = ending.router_metadata
        return body

    def writer(self, served: AnswerIdentity, request: ChatRequest) -> StreamWriter:
        raise InvalidRequest("Embeddings are not streamed")

    def error_body(
        self, error: GatewayError, *, generation_id: str | None, beside: JsonObject
    ) -> JsonObject:
        return error_body(error, **beside)


_USAGE: Final = ("prompt_tokens", "total_tokens", "cost", "cost_details", "is_byok")


def _write(vector: str | bytes) -> Fragment:
    return Fragment(vector if isinstance(vector, bytes) else dumps(read_vector(vector)))


def _write_base64(vector: str | bytes) -> str:
    if isinstance(vector, str):
        return vector
    numbers = read_vector(vector)
    return b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def read_vector(vector: str | bytes) -> Sequence[float]:
    """The numbers of a vector: JSON as bytes, or base64 of 32-bit floats, little end first."""
    if isinstance(vector, bytes):
        numbers: list[float] = orjson.loads(vector)
        return numbers
    raw = b64decode(vector)
    return struct.unpack(f"<{len(raw) // _FLOAT_BYTES}f", raw)


def join_answer(body: JsonObject) -> bytes:
    """The JSON of an answer, whose vectors `write_answer` has written. A large one is joined beside
    the loop, which 40 MB would hold for 40 ms."""
    items = body["data"]
    head = dumps({name: value for name, value in body.items() if name != "data"})
    pieces = [head[:-1], b',"data":[', items[0]]
    for item in items[1:]:
        pieces += (b",", item)
    pieces.append(b"]}")
    join = partial(b"".join, pieces)
    return run_in_thread(join) if sum(map(len, items)) > _JOINED_BYTES_MAX else join()


EMBEDDINGS: Final[CallerFormat] = EmbeddingsFormat()
