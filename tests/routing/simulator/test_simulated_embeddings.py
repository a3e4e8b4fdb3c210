"""Embeddings: what is alike is near, in either encoding."""

import struct
from base64 import b64decode

import pytest

from routing.simulator.formats.embeddings import embed
from tests.routing.simulator.conftest import Asked


@pytest.fixture
def ask(upstream, wire) -> Asked:
    return Asked(upstream, wire, "embeddings")


def nearness(text: str, other: str) -> float:
    return sum(a * b for a, b in zip(embed(text), embed(other), strict=True))


def test_texts_are_as_near_as_they_are_alike():
    asked = "How do I reset my password?"
    assert nearness(asked, asked) == pytest.approx(1)
    assert nearness(asked, "how do I reset my Password") > 0.8
    assert nearness(asked, "When does the train to Oslo leave?") < 0.3


def test_vectors_in_both_encodings_and_of_any_length(ask):
    numbers = ask.document(input=["Hello", [1, 2, 3]], dimensions=8)
    coded = ask.document(input=["Hello", [1, 2, 3]], dimensions=8, encoding_format="base64")
    for plain, packed in zip(numbers["data"], coded["data"], strict=True):
        assert len(plain["embedding"]) == 8
        assert list(struct.unpack("<8f", b64decode(packed["embedding"]))) == plain["embedding"]
    assert numbers["usage"] == {"prompt_tokens": 5, "total_tokens": 5}


@pytest.mark.parametrize(
    "body", [{"input": ""}, {"input": []}, {"dimensions": 257}, {"dimensions": 0}]
)
def test_what_openai_refuses_is_refused(ask, body):
    status, _, _ = ask(**body)
    assert status == 400
