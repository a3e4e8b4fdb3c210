"""The wire of models that make embeddings: what is sent, and what is no answer."""

import json
from typing import Any

import pytest

from routing.entities.exchange import Prompt, Terms
from routing.upstreams.embeddings import EMBEDDINGS, find_mismatch
from routing.upstreams.failures import UpstreamFailure

ONE = {"index": 0, "embedding": [0.5, -1]}
IN_BASE64 = {"index": 1, "embedding": "AAAAPwAAgL8="}


def read(*data: Any, **fields: Any) -> Any:
    body = {"object": "list", "data": list(data), **fields}
    return EMBEDDINGS.answer(json.dumps(body).encode(), "application/json")


def test_a_call_holds_what_openai_names_and_the_hashed_user() -> None:
    asked = {"model": "acme/v", "input": ["a"], "dimensions": 8, "encoding_format": "base64"}
    asked |= {"user": "me", "provider": {"zdr": True}, "metadata": {"a": "b"}}
    terms = Terms("v-1", frozenset(), "hash-of-a-user", "secret", None, 100)
    request = EMBEDDINGS.request(Prompt({}, asked, False, 0, None, None, False), terms)
    assert request.path == "/embeddings"
    assert dict(request.headers)["Authorization"] == "Bearer secret"
    assert json.loads(request.body) == {
        **{name: asked[name] for name in ("input", "dimensions", "encoding_format")},
        "model": "v-1",
        "user": "hash-of-a-user",
    }


def test_vectors_stand_in_the_order_of_their_inputs() -> None:
    answer = read(IN_BASE64, ONE, usage={"prompt_tokens": 7, "total_tokens": 7})
    assert answer.native.value == {"vectors": [ONE["embedding"], IN_BASE64["embedding"]]}
    assert answer.usage == {"prompt_tokens": 7, "completion_tokens": 0}


@pytest.mark.parametrize(
    "data",
    [
        [],
        ["x"],
        [{"index": 0}],
        [ONE, ONE],
        [{**ONE, "index": 1}],
        [{**ONE, "index": True}],
        [{**ONE, "embedding": []}],
        [{**ONE, "embedding": [0.5, "1"]}],
        [{**ONE, "embedding": "not base64"}],
        [{**ONE, "embedding": "AAAA"}],
    ],
)
def test_what_is_no_list_of_vectors_is_a_failure(data: list[Any]) -> None:
    with pytest.raises(UpstreamFailure) as caught:
        read(*data)
    assert caught.value.told_status == 502


def test_an_error_object_with_200_is_one() -> None:
    with pytest.raises(UpstreamFailure) as caught:
        EMBEDDINGS.answer(b'{"error": {"message": "gone", "code": 429}}', "application/json")
    assert caught.value.told_status == 429


@pytest.mark.parametrize(
    ("data", "inputs", "dimensions", "is_good"),
    [
        ([ONE, IN_BASE64], (1, 1), None, True),
        ([ONE, IN_BASE64], (1, 1), 2, True),
        ([ONE], (1, 1), None, False),
        ([ONE], (1,), 3, False),
        ([ONE, {"index": 1, "embedding": [1]}], (1, 1), None, False),
        ([{"index": 0, "embedding": ""}], (1,), None, False),
    ],
)
def test_vectors_fit_what_was_asked(
    data: list[Any], inputs: tuple[int, ...], dimensions: int | None, is_good: bool
) -> None:
    why = find_mismatch(read(*data), inputs, {"dimensions": dimensions})
    assert (why is None) == is_good
