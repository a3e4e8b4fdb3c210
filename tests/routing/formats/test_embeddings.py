"""An embeddings body as it is read, and vectors as they are written."""

import json
from dataclasses import replace
from typing import Any

import pytest

from routing.entities.exchange import Native
from routing.formats.caller import AnswerIdentity, CompleteAnswer, Ending
from routing.formats.chat.request import ChatInvalid, ChatRequest
from routing.formats.embeddings import EMBEDDINGS, INPUTS_MAX, has_tokens, join_answer
from routing.guarding.texts import change_texts
from routing.serving.request.context import measure_demand

VECTORS = [b"[0.5, -1.0]", "AAAAPwAAgL8="]


def read(given: Any = "Hello", **fields: Any) -> ChatRequest:
    body = {"model": "acme/v", "input": given, **fields}
    return EMBEDDINGS.parse(body, session_header=None, models_max=3)


@pytest.mark.parametrize(
    ("given", "chars", "size"),
    [
        ("Grüße", (5,), 7),
        (["a", "bcd"], (1, 3), 4),
        ([5, 6, 7], (12,), 3),
        ([[5], [6, 7]], (4, 8), 3),
    ],
)
def test_each_input_has_a_context_and_all_are_paid(
    given: Any, chars: tuple[int, ...], size: int
) -> None:
    request = read(given, models=["b/w"], user="me")
    assert (request.input_chars, request.text_bytes) == (chars, size)
    assert request.prompt_text_chars == sum(chars)
    assert request.candidates == ["acme/v", "b/w"]
    assert request.output_modalities == {"embeddings"}
    assert request.max_output_tokens == 0
    assert has_tokens(request) == (size == 3)


@pytest.mark.parametrize(
    "given",
    ["", [], [""], [[]], [["a"]], ["a", 1], [1, [2]], [-1], [1.5], None, {"a": 1}, [None]],
)
def test_what_is_no_input_is_refused(given: Any) -> None:
    with pytest.raises(ChatInvalid) as caught:
        read(given)
    assert caught.value.issues[0].path.startswith("input")


def test_there_are_2048_inputs_at_most_and_more_tokens_in_one() -> None:
    full = read(["a"] * INPUTS_MAX)
    assert len(full.input_chars) == INPUTS_MAX
    # A hold is also for what begins and ends each.
    assert measure_demand(full).messages == INPUTS_MAX
    assert len(read([1] * (INPUTS_MAX + 1)).input_chars) == 1
    with pytest.raises(ChatInvalid, match="2048"):
        read(["a"] * (INPUTS_MAX + 1))


@pytest.mark.parametrize(
    ("encoding", "is_text"), [(None, False), ("float", False), ("base64", True)]
)
def test_vectors_are_written_as_they_are_wanted_however_they_came(
    encoding: str | None, is_text: bool
) -> None:
    usage = {"prompt_tokens": 3, "total_tokens": 3, "cost": 0, "cost_details": {}, "is_byok": False}
    native = Native("embeddings", "", b"", {"vectors": VECTORS})
    ending = Ending("stop", "stop", usage, None, None, native, None, None)
    served = AnswerIdentity("gen-emb-1", 5, "acme/v", "Acme")
    request = read(["a", "b"], **({"encoding_format": encoding} if encoding else {}))
    body = EMBEDDINGS.write_answer(CompleteAnswer(served, request, {}, None, None, ending))
    written = json.loads(join_answer(body))
    assert [each["index"] for each in written["data"]] == [0, 1]
    expected = VECTORS[1] if is_text else [0.5, -1.0]
    assert [each["embedding"] for each in written["data"]] == [expected, expected]
    assert (written["object"], written["model"], written["id"]) == ("list", "acme/v", "gen-emb-1")


@pytest.mark.parametrize(
    ("given", "changed"), [("a secret", ["a ***"]), (["b", "secret"], ["b", "***"])]
)
def test_filters_change_texts_and_what_is_sent_of_them(given: Any, changed: list[str]) -> None:
    def redact(text: str, by_user: bool) -> str:
        assert by_user
        return text.replace("secret", "***")

    request = change_texts(read(given), redact)
    assert request.original is not None
    assert request.original["input"] == changed
    assert request.input_chars == tuple(map(len, changed))
    untouched = read("plain")
    assert change_texts(untouched, redact) is untouched
    # As guards read what is said.
    assert change_texts(replace(request, original=None), redact).original is None
