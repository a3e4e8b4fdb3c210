"""The wire of models that make embeddings: what is sent, and what is no answer."""

import json
from typing import Any

import pytest

from routing.entities.exchange import Prompt, Terms
from routing.statistics.observation import is_request_at_fault
from routing.upstreams import embeddings
from routing.upstreams.embeddings import EMBEDDINGS, find_mismatch
from routing.upstreams.failures import UpstreamFailure

ONE = {"index": 0, "embedding": [0.5, -1]}
IN_BASE64 = {"index": 1, "embedding": "AAAAPwAAgL8="}


def read(*data: Any, **fields: Any) -> Any:
    body = {"object": "list", "data": list(data), **fields}
    return EMBEDDINGS.answer(json.dumps(body).encode(), "application/json")


def test_a_call_holds_what_openai_names_and_the_hashed_user_and_asks_for_base64() -> None:
    asked = {"model": "acme/v", "input": ["a"], "dimensions": 8, "encoding_format": "float"}
    asked |= {"user": "me", "provider": {"zdr": True}, "metadata": {"a": "b"}}
    terms = Terms("v-1", frozenset(), "hash-of-a-user", "secret", None, 100)
    request = EMBEDDINGS.request(Prompt({}, asked, False, 0, None, None, False), terms)
    assert request.path == "/embeddings"
    assert dict(request.headers)["Authorization"] == "Bearer secret"
    assert json.loads(request.body) == {
        **{name: asked[name] for name in ("input", "dimensions")},
        "encoding_format": "base64",
        "model": "v-1",
        "user": "hash-of-a-user",
    }


def test_vectors_stand_in_the_order_of_their_inputs() -> None:
    answer = read(IN_BASE64, ONE, usage={"prompt_tokens": 7, "total_tokens": 7})
    assert answer.native.value["vectors"] == [b"[0.5, -1]", IN_BASE64["embedding"]]
    assert answer.usage == {"prompt_tokens": 7, "completion_tokens": 0}
    assert read(ONE, usage={"total_tokens": 7}).usage == answer.usage


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
        [{**ONE, "embedding": ""}],
        # Not a number, infinite, and beyond 32-bit floats.
        [{**ONE, "embedding": "AADAfw=="}],
        [{**ONE, "embedding": "AACAfwAAgP8="}],
        [{**ONE, "embedding": [1e39]}],
        [{**ONE, "embedding": [[0.5]]}],
        [ONE, {"index": 1, "embedding": 0}],
    ],
)
def test_what_is_no_list_of_vectors_is_a_failure(data: list[Any]) -> None:
    with pytest.raises(UpstreamFailure) as caught:
        read(*data)
    assert caught.value.caller_status == 502


def test_others_get_their_turn_between_many_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[None] = []
    # There is no event loop here, so that turns are counted.
    monkeypatch.setattr(embeddings, "yield_control", lambda: turns.append(None))
    many = [{"index": index, "embedding": [0.123456789] * 1_536} for index in range(100)]
    vectors = read(*many).native.value["vectors"]
    assert list(map(json.loads, vectors)) == [each["embedding"] for each in many]
    assert len(turns) >= 4


def test_an_error_object_with_200_is_one() -> None:
    with pytest.raises(UpstreamFailure) as caught:
        EMBEDDINGS.answer(b'{"error": {"message": "gone", "code": 429}}', "application/json")
    assert caught.value.caller_status == 429


@pytest.mark.parametrize(
    ("data", "inputs", "dimensions", "status"),
    [
        ([ONE, IN_BASE64], (1, 1), None, None),
        ([ONE, IN_BASE64], (1, 1), 2, None),
        ([ONE], (1, 1), None, 502),
        ([ONE], (1,), 3, 400),
        ([ONE, {"index": 1, "embedding": [1]}], (1, 1), None, 502),
    ],
)
def test_vectors_fit_what_was_asked(
    data: list[Any], inputs: tuple[int, ...], dimensions: int | None, status: int | None
) -> None:
    failure = find_mismatch(read(*data), inputs, {"dimensions": dimensions})
    assert (failure and failure.caller_status) == status
    if failure is not None:
        # What the model cannot do is asked of no other endpoint, and speaks against none.
        assert is_request_at_fault(failure) == (status == 400) != failure.elsewhere
