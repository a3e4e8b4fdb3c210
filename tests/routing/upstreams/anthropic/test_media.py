"""Images and files of chat messages as blocks."""

from typing import Any

import pytest

from tests.routing.upstreams.anthropic.said import PDF_URL, PNG_URL, turns_for, user


def block_of(part: dict[str, Any]) -> dict[str, Any]:
    [(_, blocks)] = turns_for([user([{"type": "text", "text": "see"}, part])])
    found: dict[str, Any] = blocks[1]
    return found


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("https://x/y.png", {"type": "url", "url": "https://x/y.png"}),
        (PNG_URL, {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}),
        (
            "DATA:image/JPG;base64,AAAA",
            {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"},
        ),
        (
            "data:image/gif,GIF8%39",
            {"type": "base64", "media_type": "image/gif", "data": "R0lGODk="},
        ),
    ],
)
def test_images(url: str, source: dict[str, Any]) -> None:
    part = {"type": "image_url", "image_url": {"url": url, "detail": "high"}}
    assert block_of(part) == {"type": "image", "source": source}


@pytest.mark.parametrize(
    ("file", "block"),
    [
        (
            {"file_data": PDF_URL, "filename": "a.pdf"},
            {
                "type": "document",
                "source": {
                    "type": "base64",
                    "media_type": "application/pdf",
                    "data": "JVBERi0xLjQ=",
                },
                "title": "a.pdf",
            },
        ),
        (
            {"file_data": "data:application/octet-stream;base64,JVBERi0xLjQ="},
            {
                "type": "document",
                "source": {
                    "type": "base64",
                    "media_type": "application/pdf",
                    "data": "JVBERi0xLjQ=",
                },
            },
        ),
        (
            {"file_data": "data:text/plain;charset=utf-8;base64,w6k="},
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "é"},
            },
        ),
        (
            {"file_data": "data:application/json,%7B%7D", "filename": ""},
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "{}"},
            },
        ),
        (
            {"file_data": "https://x/a.pdf"},
            {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}},
        ),
        (
            {"file_id": "file_1"},
            {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        ),
        (
            {"file_data": PNG_URL, "filename": "a.png"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
            },
        ),
        (
            {"file_data": "data:application/zip;base64,UEsDBA=="},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/zip", "data": "UEsDBA=="},
            },
        ),
    ],
)
def test_files(file: dict[str, Any], block: dict[str, Any]) -> None:
    assert block_of({"type": "file", "file": file}) == block


def test_text_that_is_no_utf8_stays_as_it_came() -> None:
    block = block_of({"type": "file", "file": {"file_data": "data:text/plain;base64,/w=="}})
    assert block["source"] == {"type": "base64", "media_type": "text/plain", "data": "/w=="}


def test_audio_and_video_have_no_block() -> None:
    parts = [
        {"type": "text", "text": "x"},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "https://x/y"}},
    ]
    assert turns_for([user(parts)]) == [("user", [{"type": "text", "text": "x"}])]
