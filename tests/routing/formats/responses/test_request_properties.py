"""What holds for any body at all."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from routing.formats.chat.request import ChatInvalid, ChatRequest
from routing.formats.chat.schema import ChatBody, check_body
from routing.formats.responses.format import RESPONSES
from routing.formats.responses.schema import ResponsesBody
from tests.routing.formats.responses.answers import plain

NAMES = sorted(ResponsesBody.__annotations__)
WORDS = [
    *("type", "role", "id", "content", "text", "name", "parameters", "tools", "call_id", "output"),
    *("arguments", "input", "summary", "encrypted_content", "signature", "format", "user"),
    *("assistant", "system", "message", "input_text", "output_text", "refusal", "input_image"),
    *("image_url", "input_file", "function_call", "function_call_output", "reasoning", "function"),
    *("custom_tool_call", "item_reference", "web_search_call", "allowed_tools", "mode", "custom"),
    *("namespace", "mcp", "router:datetime", "image_generation_call", "result", "annotations"),
    *("summary_text", "reasoning_text", "json_schema", "schema", "verbosity", "effort", "http://x"),
]
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(WORDS)
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(NAMES), anything, max_size=6), anything)
def test_any_body_is_read_or_refused(fields: dict[str, Any], given_input: Any) -> None:
    body = {**fields, "input": given_input}
    before = plain(body)
    request = parsed(body)
    if request is not None:
        check_translated(request)
        assert plain(body) == before


part = st.one_of(
    st.builds(lambda text: {"type": "input_text", "text": text}, st.text(max_size=9)),
    st.just({"type": "input_image", "image_url": "https://x.org/a.png", "detail": None}),
    st.just({"type": "input_file", "file_id": "f", "filename": "n"}),
)
spoken = st.one_of(
    st.builds(lambda text: {"type": "output_text", "text": text}, st.text(max_size=9)),
    st.builds(lambda text: {"type": "refusal", "refusal": text}, st.text(max_size=9)),
)
content = st.text(max_size=9) | st.lists(part, min_size=1, max_size=3)
call_ids = st.sampled_from(["c1", "c2", "c3"])
item = st.one_of(
    st.builds(lambda said: {"role": "user", "content": said}, content),
    st.builds(lambda said: {"role": "system", "content": said}, st.text(max_size=9)),
    st.builds(
        lambda said: {"type": "message", "role": "assistant", "content": said},
        st.text(max_size=9) | st.lists(spoken, max_size=3),
    ),
    st.builds(
        lambda one: {"type": "function_call", "call_id": one, "name": "f", "arguments": "{}"},
        call_ids,
    ),
    st.builds(
        lambda one, said: {"type": "function_call_output", "call_id": one, "output": said},
        call_ids,
        content,
    ),
    st.builds(
        lambda one, seal: {
            "type": "reasoning",
            "id": one,
            "summary": [{"type": "summary_text", "text": "s"}],
            "encrypted_content": seal,
        },
        st.sampled_from([None, "rs_1", "rs_2"]),
        st.none() | st.text(max_size=5),
    ),
    st.just({"type": "web_search_call", "id": "ws_1"}),
)


@given(st.lists(item, min_size=1, max_size=9))
def test_a_conversation_is_a_chat_that_chat_would_take(items: list[dict[str, Any]]) -> None:
    request = parsed({"model": "a/b", "input": items})
    if request is not None:
        check_translated(request)


def parsed(body: dict[str, Any]) -> ChatRequest | None:
    try:
        return RESPONSES.parse(body, session_header=None, models_max=3)
    except ChatInvalid:
        return None


def check_translated(request: ChatRequest) -> None:
    """The translation passes the schema of chat."""
    known = {k: v for k, v in request.body.items() if k in ChatBody.__annotations__}
    known["tools"] = [one for one in known.get("tools", []) if one["type"] == "function"]
    assert check_body(known)
