"""Searching and fetching in loops: what each format tells, what it costs, what goes wrong."""

import json
import time

import pytest

from tests.conformance.web import FETCH, LINK, SEARCH, SEARCH_NANO, WebDesk, fetch, search
from tests.support.promptness import in_time
from tests.support.speakers import SPEAKERS

STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
FORMATS = pytest.mark.parametrize("format", SPEAKERS)
USED = {"usage": {"prompt_tokens": 100, "completion_tokens": 10}}
TURN_NANO = 100 * 1_000 + 10 * 2_000


@pytest.mark.grid
@FORMATS
@STREAMED
def test_a_search_is_made_told_counted_and_charged(web: WebDesk, format: str, stream: bool) -> None:
    web.script(search() | USED, {"text": LINK} | USED, {"text": "Later."})

    said, _, generation_id = web.answer(format, stream=stream, tools=[SEARCH])

    assert said.text == LINK
    assert said.cost_nano == 2 * TURN_NANO + SEARCH_NANO
    assert [asked.query for asked in web.engine.asked] == ["cats"]
    told = json.loads(web.list_sent_bodies()[1]["messages"][-1]["content"])
    assert [each["title"] for each in told["results"]] == ["One & only", "Two"]
    record = web.desk.generation(generation_id)
    assert record["num_search_results"] == 2
    assert (record["num_fetches"], record["web_search_engine"]) == (None, "searxng")
    # What was told may be sent back.
    speaker = SPEAKERS[format]
    history = [*speaker.user("Hi"), *said.native, *speaker.user("And now?")]
    body = speaker.body("acme/over-openai", history)
    response = web.desk.server.post(speaker.path, key=web.desk.account.api_key, json=body)
    assert response.status_code == 200, response.text
    assert speaker.read_answer(response.json()).text == "Later."


def test_chat_cites_with_places(web: WebDesk) -> None:
    web.script(*({"text": "Hm. "} | search(), {"text": LINK}) * 2)

    _, raw, _ = web.answer("chat", tools=[SEARCH])
    _, values, _ = web.answer("chat", stream=True, tools=[SEARCH])

    message = raw["choices"][0]["message"]
    (annotation,) = message["annotations"]
    cited = annotation["url_citation"]
    assert message["content"] == f"Hm. {LINK}"
    place = message["content"][cited["start_index"] : cited["end_index"]]
    assert place == "[One](https://one.example/a)"
    assert (cited["title"], cited["content"]) == ("One & only", "The first page & more.")
    used = raw["usage"]["server_tool_use_details"]
    assert used == {"tool_calls_requested": 1, "tool_calls_executed": 1, "web_search_requests": 1}
    deltas = [choice["delta"] for value in values for choice in value.get("choices", ())]
    (cited,) = [delta["annotations"] for delta in deltas if delta.get("annotations")]
    assert [each["url_citation"]["start_index"] for each in cited] == [len("Hm. See ")]


@FORMATS
def test_what_fails_is_told_and_the_loop_goes_on(web: WebDesk, format: str) -> None:
    calls = [search(query) for query in ("huge", "html", "hang")]
    calls.append(fetch("http://169.254.169.254/latest"))
    both = {"tool_calls": [call for step in calls for call in step["tool_calls"]]}
    web.script(both | USED, {"text": "So be it."} | USED)
    began = time.monotonic()

    said, _, _ = web.answer(format, stream=format == "messages", tools=[SEARCH, FETCH])

    in_time(time.monotonic() - began, 8)
    assert said.text == "So be it."
    assert said.cost_nano == 2 * TURN_NANO
    told = [
        message for message in web.list_sent_bodies()[1]["messages"] if message["role"] == "tool"
    ]
    assert [json.loads(message["content"])["error"] for message in told] == [
        "The search engine failed",
        "The search engine gave no answer",
        "The search took too long",
        "This host is not one of the public Internet",
    ]
    if format == "messages":
        results = [block for block in said.native[0]["content"] if "tool_use_id" in block]
        codes = [block["content"]["error_code"] for block in results]
        assert codes == [*["unavailable"] * 3, "url_not_allowed"]
    elif format == "responses":
        assert [item["status"] for item in said.native[:4]] == ["incomplete"] * 4
        assert said.native[3]["error"] == "This host is not one of the public Internet"
