"""Searching and fetching in loops: what each format tells, what it costs, what goes wrong."""

import json
import time
from typing import Any

import pytest

from tests.conformance.web import FETCH, LINK, SEARCH, SEARCH_NANO, WebDesk, fetch, search
from tests.support.promptness import in_time

STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
FORMATS = pytest.mark.parametrize("format", ["chat", "messages", "responses"])
NATIVE: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}


USED = {"usage": {"prompt_tokens": 100, "completion_tokens": 10}}
TURN_NANO = 100 * 1_000 + 10 * 2_000


@FORMATS
@STREAMED
def test_a_search_is_made_told_counted_and_charged(web: WebDesk, format: str, stream: bool) -> None:
    web.script(search() | USED, {"text": LINK} | USED)

    said, _, generation_id = web.answer(format, stream=stream, tools=[SEARCH])

    assert said.text == LINK
    assert said.cost_nano == 2 * TURN_NANO + SEARCH_NANO
    assert [asked.query for asked in web.engine.asked] == ["cats"]
    told = json.loads(web.sent()[1]["messages"][-1]["content"])
    assert [each["title"] for each in told["results"]] == ["One & only", "Two"]
    record = web.desk.generation(generation_id)
    assert record["num_search_results"] == 2
    assert (record["num_fetches"], record["web_search_engine"]) == (None, "searxng")


def test_chat_cites_with_places(web: WebDesk) -> None:
    web.script({"text": "Hm. "} | search(), {"text": LINK})

    _, raw, _ = web.answer("chat", tools=[SEARCH])

    message = raw["choices"][0]["message"]
    (annotation,) = message["annotations"]
    cited = annotation["url_citation"]
    assert message["content"] == f"Hm. {LINK}"
    place = message["content"][cited["start_index"] : cited["end_index"]]
    assert place == "[One](https://one.example/a)"
    assert (cited["title"], cited["content"]) == ("One & only", "The first page & more.")
    used = raw["usage"]["server_tool_use_details"]
    assert used == {"tool_calls_requested": 1, "tool_calls_executed": 1, "web_search_requests": 1}


def test_streamed_chat_cites_the_same(web: WebDesk) -> None:
    web.script({"text": "Hm. "} | search(), {"text": LINK})

    _, values, _ = web.answer("chat", stream=True, tools=[SEARCH])

    deltas = [choice["delta"] for value in values for choice in value.get("choices", ())]
    (cited,) = [delta["annotations"] for delta in deltas if delta.get("annotations")]
    assert [each["url_citation"]["start_index"] for each in cited] == [len("Hm. See ")]


def test_an_answer_that_names_no_page_cites_all(web: WebDesk) -> None:
    web.script(search(), {"text": "So it is."})

    _, raw, _ = web.answer("chat", tools=[SEARCH])

    cited = [each["url_citation"] for each in raw["choices"][0]["message"]["annotations"]]
    assert [each["url"] for each in cited] == ["https://one.example/a", "https://two.example/b"]
    assert {(each["start_index"], each["end_index"]) for each in cited} == {(0, 0)}


@STREAMED
def test_messages_tell_it_as_its_own_provider_would(web: WebDesk, stream: bool) -> None:
    web.script({"text": "Hm. "} | search(), {"text": LINK} | USED)

    said, raw, _ = web.answer("messages", stream=stream, tools=[SEARCH])

    first, use, result, text = said.native[0]["content"]
    assert (first["type"], use["type"], use["name"]) == ("text", "server_tool_use", "web_search")
    assert use["input"] == {"query": "cats"}
    assert result["type"] == "web_search_tool_result"
    assert result["tool_use_id"] == use["id"]
    assert [each["url"] for each in result["content"]] == [
        "https://one.example/a",
        "https://two.example/b",
    ]
    deltas = [value["delta"] for value in raw if "delta" in value] if stream else []
    cited = [delta["citation"] for delta in deltas if delta.get("type") == "citations_delta"]
    (citation,) = cited if stream else text["citations"]
    assert citation["type"] == "web_search_result_location"
    assert (citation["url"], citation["title"]) == ("https://one.example/a", "One & only")
    usage = raw["usage"] if not stream else raw[-2]["usage"]
    assert usage["server_tool_use"] == {"web_search_requests": 1, "web_fetch_requests": 0}


@STREAMED
def test_responses_tell_it_as_an_item(web: WebDesk, stream: bool) -> None:
    web.script(search(), {"text": LINK})

    said, raw, _ = web.answer("responses", stream=stream, tools=[SEARCH])

    item, message = said.native
    assert (item["type"], item["status"]) == ("router:web_search", "completed")
    sources = [
        {"type": "url", "url": f"https://{page}"} for page in ("one.example/a", "two.example/b")
    ]
    assert item["action"] == {"type": "search", "query": "cats", "sources": sources}
    (annotation,) = message["content"][0]["annotations"]
    place = LINK[annotation["start_index"] : annotation["end_index"]]
    assert place == "[One](https://one.example/a)"
    if stream:
        kinds = [value["type"] for value in raw]
        steps = [kind.rpartition(".")[2] for kind in kinds if "web_search_call" in kind]
        assert steps == ["in_progress", "searching", "completed"]
        assert "response.output_text.annotation.added" in kinds


@FORMATS
@STREAMED
def test_a_page_is_fetched_and_told(web: WebDesk, format: str, stream: bool) -> None:
    url = f"{web.site.url}/page"
    web.script(fetch(url), {"text": "About cats."})

    said, raw, generation_id = web.answer(format, stream=stream, tools=[FETCH])

    assert said.text == "About cats."
    told = json.loads(web.sent()[1]["messages"][-1]["content"])
    assert (told["title"], told["url"]) == ("On cats", url)
    assert web.desk.generation(generation_id)["num_fetches"] == 1
    if format == "messages":
        use, result, _ = said.native[0]["content"]
        assert (use["name"], result["type"]) == ("web_fetch", "web_fetch_tool_result")
        assert result["content"]["content"]["source"]["data"] == told["content"]
        usage = raw["usage"] if not stream else raw[-2]["usage"]
        assert usage["server_tool_use"] == {"web_search_requests": 0, "web_fetch_requests": 1}
    elif format == "responses":
        item = said.native[0]
        assert (item["type"], item["status"]) == ("router:web_fetch", "completed")
        assert (item["url"], item["title"], item["httpStatus"]) == (url, "On cats", 200)
        assert (item["content"], item["error"]) == (told["content"], None)
    else:
        (detail,) = said.native[0]["reasoning_details"]
        assert detail["tool_name"] == "router:web_fetch"
        assert json.loads(detail["result"]) == told


@FORMATS
def test_settings_beside_the_type_count(web: WebDesk, format: str) -> None:
    web.script(fetch(f"{web.site.url}/page"), {"text": "So be it."})

    web.answer(format, tools=[FETCH | {"blocked_domains": ["127.0.0.1"]}])

    told = json.loads(web.sent()[1]["messages"][-1]["content"])
    assert told == {"error": "127.0.0.1 is not among the allowed domains"}


@FORMATS
@STREAMED
def test_what_fails_is_told_and_the_loop_goes_on(web: WebDesk, format: str, stream: bool) -> None:
    calls = [search(query) for query in ("huge", "html", "hang")]
    calls.append(fetch("http://169.254.169.254/latest"))
    both = {"tool_calls": [call for step in calls for call in step["tool_calls"]]}
    web.script(both | USED, {"text": "So be it."} | USED)
    began = time.monotonic()

    said, _, _ = web.answer(format, stream=stream, tools=[SEARCH, FETCH])

    in_time(time.monotonic() - began, 8)
    assert said.text == "So be it."
    assert said.cost_nano == 2 * TURN_NANO
    told = [message for message in web.sent()[1]["messages"] if message["role"] == "tool"]
    assert [json.loads(message["content"])["error"] for message in told] == [
        "The search engine failed",
        "The search engine gave no answer",
        "The search took too long",
        "This host is not one of the public Internet",
    ]
    if format == "messages":
        results = [block for block in said.native[0]["content"] if "tool_use_id" in block]
        assert [block["content"]["error_code"] for block in results] == [
            *["unavailable"] * 3,
            "url_not_allowed",
        ]
    elif format == "responses":
        assert [item["status"] for item in said.native[:4]] == ["incomplete"] * 4
        assert said.native[3]["error"] == "This host is not one of the public Internet"


@FORMATS
@STREAMED
def test_what_was_told_may_be_sent_back(web: WebDesk, format: str, stream: bool) -> None:
    from tests.support.speakers import SPEAKERS

    web.script(search(), {"text": LINK}, {"text": "Later."})
    said, _, _ = web.answer(format, stream=stream, tools=[SEARCH])
    speaker = SPEAKERS[format]
    history = [*speaker.user("Hi"), *said.native, *speaker.user("And now?")]
    body = speaker.body("acme/over-openai", history)

    response = web.desk.server.post(speaker.path, key=web.desk.account.api_key, json=body)

    assert response.status_code == 200, response.text
    assert speaker.heard(response.json()).text == "Later."
