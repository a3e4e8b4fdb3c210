"""Whatever a body of any format holds, it is read or refused by name, and none may break.

Bodies that are right but for a value or two, and bodies of anything at all."""

from collections.abc import Iterator, Sequence, Set
from copy import deepcopy
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.formats.chat.format import CHAT
from routing.formats.chat.forward import GATEWAY_FIELDS, build_forwarded_body
from routing.formats.chat.request import PARAMETER_VOCABULARY, ChatInvalid, ChatRequest
from routing.formats.chat.schema import ChatBody, check_chat
from routing.formats.messages.format import MESSAGES
from routing.formats.messages.schema import MessagesBody
from routing.formats.responses.format import RESPONSES
from routing.formats.responses.schema import ResponsesBody
from tests.routing.formats import chat_bodies
from tests.routing.formats.chat_bodies import DATA_URL, FUNCTION, USER
from tests.routing.formats.messages import bodies as messages
from tests.routing.formats.messages.bodies import EPHEMERAL
from tests.routing.formats.responses import bodies as responses
from tests.routing.formats.schema_walk import Change, Walk, complete_body, complete_path
from tests.routing.formats.test_fields import FIELDS, FORMATS

Body = dict[str, Any]
Place = tuple[Any, ...]
DATETIME: Final = {"type": "router:datetime", "parameters": {"timezone": "UTC"}}
REASONING: Final[Body] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "s"}],
    "content": [{"type": "reasoning_text", "text": "t"}],
    "signature": "s",
}
NOTES: Final = [{"type": "url_citation", "url": "u"}]
CITED: Final = {"type": "output_text", "text": "a", "annotations": NOTES}
DECLINED: Final = {"type": "refusal", "refusal": "no"}
PARTS: Final[list[Body]] = [
    {"type": "input_text", "text": "a", "cache_control": EPHEMERAL},
    {"type": "input_image", "image_url": DATA_URL, "detail": "low"},
    {"type": "input_file", "file_data": DATA_URL, "filename": "f"},
    {"type": "input_audio", "input_audio": {"data": "A", "format": "mp3"}},
]
SCHEMAS: Final = {"c": ChatBody, "m": MessagesBody, "r": ResponsesBody}
NAMES: Final = {"c": CHAT, "m": MESSAGES, "r": RESPONSES}
of_each_format = pytest.mark.parametrize("format", FORMATS)

# A value of every JSON type, plain and with another type inside.
ODD: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 5.5, 1e308, 10**30, "", "x", "allowed_tools", "namespace", "custom"),
    *([], [None], ["x"], [[]], [{}], {}, {"x": None}, {"type": "x"}, {"type": []}, {"name": []}),
)
# Keys that the rules of some kind of object read.
KEYS: Final = ("type", "name", "role", "content", "parameters", "tools", "cache_control", "id")


def places(value: Any, before: Place = ()) -> Iterator[Place]:
    """Where a value stands, or could, at any depth."""
    if isinstance(value, dict):
        for key in dict.fromkeys((*value, *KEYS)):
            yield (*before, key)
            yield from places(value.get(key), (*before, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield (*before, index)
            yield from places(item, (*before, index))


def put(body: Body, place: Place, value: Any) -> Body:
    """A copy of the body with the value at the place; the body where no way leads there."""
    changed = deepcopy(body)
    holder: Any = changed
    try:
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = value
    except (TypeError, LookupError):
        return body
    return changed


def read(format: str, body: Body) -> ChatRequest | ChatInvalid:
    """What is read, or why it is refused; a reason says something."""
    try:
        return FORMATS[format].parse(body)
    except ChatInvalid as error:
        refusal = error
    assert refusal.issues, body
    assert all(issue.message for issue in refusal.issues), body
    return refusal


def changes_of(format: str, values: Sequence[Any]) -> Iterator[Change]:
    """For each field in the schema a whole body with the least of what stands beside it, and with
    each of the values there. A tool can be chosen."""
    tool = {"c": FUNCTION, "m": messages.TOOL, "r": responses.FUNCTION}[format]
    least = FORMATS[format].body(tools=[tool])
    for plain, changed, path in Walk(SCHEMAS[format], values).changes():
        whole, *others = (least | complete_body(NAMES[format], each) for each in (plain, *changed))
        yield whole, others, complete_path(NAMES[format], path)


# What may hold anything, of some kind of object at least.
FREE: Final[dict[str, set[str]]] = {
    "c": {
        *(f"messages.1.reasoning_details.0.{name}" for name in ("arguments", "result", "type")),
        "plugins.0.tools.0.filters",
    },
    "m": {
        *("messages.1.content.0.input", "messages.1.content.0.tool.type"),
        *("tools.0.allowed_domains", "tools.0.blocked_domains", "tools.0.max_uses"),
        *("tools.0.model", "tools.0.user_location", "tools.0.parameters.tools.0.filters"),
    },
    "r": set(),
}
# They say which other fields an object has, or stand for one another: the object is named.
OF_OBJECTS: Final = ("type", "file_data", "subagent_id")


@of_each_format
def test_a_wrong_value_is_read_or_refused_where_it_stands(format: str) -> None:
    free = set()
    for plain, changed, path in changes_of(format, ODD):
        place, _, name = path.rpartition(".")
        named = f"{place}." if name in OF_OBJECTS else f"{path}."
        refusals = [each for body in changed if isinstance(each := read(format, body), ChatInvalid)]
        if not refusals:
            free.add(path)
        for refusal in refusals if isinstance(read(format, plain), ChatRequest) else ():
            paths = [f"{issue.path}." for issue in refusal.issues]
            assert any(each.startswith(named) for each in paths), (path, paths)
    assert free == FREE[format]


WORDS: Final = [
    *("type", "role", "id", "content", "text", "name", "parameters", "tools", "call_id", "output"),
    *("arguments", "input", "summary", "encrypted_content", "signature", "format", "user", "url"),
    *("assistant", "system", "message", "input_text", "output_text", "refusal", "input_image"),
    *("image_url", "input_file", "function_call", "function_call_output", "reasoning", "function"),
    *("custom_tool_call", "item_reference", "web_search_call", "allowed_tools", "mode", "custom"),
    *("namespace", "mcp", "router:datetime", "image_generation_call", "result", "annotations"),
    *("summary_text", "reasoning_text", "json_schema", "schema", "verbosity", "effort", "http://x"),
    *("router:advisor", "router:web_search", "web_search", "web", "auto-router", "low", "sort"),
    *("by", "price", "max_price", "prompt", "p50", "tool", "tool_calls", "tool_call_id", "file"),
    *("\0string", "[key]"),
]
numbers = (
    st.integers(min_value=-(10**30), max_value=10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0, 1, 2, 5.0, 5.5, 1e308, -1e308, 2**63, 2**64, 10**300])
)
strings = st.sampled_from(WORDS) | st.text(max_size=9)
anything = st.recursive(
    st.none() | st.booleans() | numbers | strings,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(strings, inner, max_size=5),
    max_leaves=12,
)


PLAIN: Final = {
    format: [
        *(body for body, _, _ in changes_of(format, [None])),
        *(FORMATS[format].body(**{row[1]: row[2][-1]}) for row in FIELDS if format in row[0]),
    ]
    for format in FORMATS
}


@of_each_format
@given(st.data())
def test_a_body_with_some_wrong_values_is_read_or_refused(format: str, data: st.DataObject) -> None:
    body = data.draw(st.sampled_from(PLAIN[format]))
    at = list(places(body))
    for _ in range(data.draw(st.integers(1, 3))):
        body = put(body, data.draw(st.sampled_from(at)), data.draw(st.sampled_from(ODD) | anything))
    read(format, body)


spoken = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "assistant", "tool", "developer"])},
        optional={"content": anything, "tool_calls": anything, "tool_call_id": strings},
    ),
    max_size=3,
)


@of_each_format
@given(st.data())
def test_a_body_of_anything_is_read_or_refused(format: str, data: st.DataObject) -> None:
    names = st.sampled_from(sorted(SCHEMAS[format].__annotations__)) | strings
    fields = data.draw(st.dictionaries(names, anything, max_size=6))
    fields["input" if format == "r" else "messages"] = data.draw(
        st.just([USER]) | spoken | anything
    )
    body = FORMATS[format].body(**fields)
    before = repr(body)
    request = read(format, body)
    assert repr(body) == before
    if isinstance(request, ChatRequest):
        assert request.text_bytes >= 0
        check_translated(request, forwarded=fields.keys() - SCHEMAS[format].__annotations__.keys())


def check_translated(request: ChatRequest, forwarded: Set[str] = frozenset()) -> None:
    """What others are translated to passes the schema of chat, but for what a format does not know,
    which is forwarded as given."""
    known = {
        name: value
        for name, value in request.body.items()
        if name in ChatBody.__annotations__ and name not in forwarded
    }
    known["tools"] = [one for one in known.get("tools") or [] if one["type"] == "function"]
    assert check_chat(known)


short = st.text(max_size=9)
ids = st.sampled_from(["c1", "c2", "c3"])
part = st.sampled_from(PARTS[:3]) | st.builds(
    lambda text: {"type": "input_text", "text": text}, short
)
content = short | st.lists(part, min_size=1, max_size=3)
item = st.one_of(
    st.builds(lambda said: {"role": "user", "content": said}, content),
    st.builds(lambda said: {"role": "system", "content": said}, short),
    st.builds(
        lambda said: {"type": "message", "role": "assistant", "content": said},
        short | st.lists(st.sampled_from([CITED, DECLINED]), max_size=3),
    ),
    st.builds(lambda one: {**responses.CALL, "call_id": one}, ids),
    st.builds(
        lambda one, said: {**responses.CALL_OUTPUT, "call_id": one, "output": said}, ids, content
    ),
    st.builds(
        lambda one, seal: {**REASONING, "id": one, "encrypted_content": seal},
        st.sampled_from([None, "rs_1", "rs_2"]),
        st.none() | short,
    ),
    st.just({"type": "web_search_call", "id": "ws_1"}),
)


@given(st.lists(item, min_size=1, max_size=9))
def test_a_conversation_of_items_is_a_chat_that_chat_would_take(items: list[Body]) -> None:
    request = read("r", responses.body(input=items))
    if isinstance(request, ChatRequest):
        check_translated(request)


plain: dict[str, st.SearchStrategy[Any]] = {
    "temperature": st.floats(0, 2),
    "max_tokens": st.integers(1, 10**30),
    "max_completion_tokens": st.integers(1, 99),
    "stop": st.lists(strings, max_size=4),
    "logprobs": st.booleans(),
    "top_logprobs": st.integers(0, 20),
    "reasoning": st.fixed_dictionaries({}, optional={"effort": st.just("low")}),
    "include_reasoning": st.booleans(),
    "tools": st.lists(st.sampled_from([FUNCTION, DATETIME])),
    "tool_choice": st.sampled_from(["none", "auto"]),
    "service_tier": st.sampled_from(["fast", "flex", None]),
    "stream": st.booleans(),
    "user": strings,
    "metadata": st.just({"a": "b"}),
    "foo": anything,
}


@given(
    st.fixed_dictionaries({}, optional=plain),
    st.frozensets(st.sampled_from(sorted(PARAMETER_VOCABULARY | GATEWAY_FIELDS | {"foo"}))),
    st.none() | st.integers(1, 10),
)
def test_only_allowed_keys_are_forwarded(
    fields: Body, supported: frozenset[str], cap: int | None
) -> None:
    sent = build_forwarded_body(
        chat_bodies.parse_fields(**fields),
        upstream_model="m",
        supported=supported,
        user_hash="h",
        stream_usage=True,
        max_tokens_cap=cap,
    )
    always = {"model", "messages", "max_tokens", "stream", "stream_options"}
    assert set(sent) <= always | (supported - (GATEWAY_FIELDS - {"user"}))
    assert all(value is not None for value in sent.values())
    assert sent.get("user", "h") == "h"
    assert sent.get("max_tokens", 1) <= (cap or 10**30)
