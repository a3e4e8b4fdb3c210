"""Random chat-shaped conversations as callers of any format may bring them."""

from typing import Any

from hypothesis import strategies as st

text = st.text(max_size=10)
spoken = st.text(min_size=1, max_size=10)
ids = st.sampled_from(["call_1", "call_2", "x"])

text_part = st.fixed_dictionaries(
    {"type": st.just("text"), "text": text},
    optional={"cache_control": st.just({"type": "ephemeral"})},
)
_media = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("image_url")}
        | {
            "image_url": st.fixed_dictionaries(
                {"url": st.sampled_from(["https://a/b.png", "data:image/png;base64,AA"])},
                optional={"detail": st.sampled_from(["auto", "low", "high", "original"])},
            )
        }
    ),
    st.just({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}),
    st.builds(
        lambda kind: {"type": kind, "video_url": {"url": "https://a/v.mp4"}},
        st.sampled_from(["video_url", "input_video"]),
    ),
    st.builds(
        lambda file: {"type": "file", "file": file},
        st.sampled_from(
            [
                {"file_data": "data:application/pdf;base64,AA", "filename": "a.pdf"},
                {"file_data": "https://a/f.pdf"},
                {"file_id": "file-1", "filename": "f"},
            ]
        ),
    ),
)
parts = st.lists(text_part | _media, min_size=1, max_size=3)

_FORMATS = ["openai-responses-v1", "xai-responses-v1", "azure-openai-responses-v1"]
_FOREIGN: list[dict[str, Any]] = [
    {"type": "reasoning.text", "text": "t", "signature": "s", "format": "anthropic-claude-v1"},
    {"type": "reasoning.encrypted", "data": "d", "format": "google-gemini-v1", "id": "g"},
    {"type": "reasoning.text", "text": "t", "format": None},
    {"type": "reasoning.new", "format": "openai-responses-v1"},
]


def _pieces(kind: str, name: str, texts: list[str], common: dict[str, Any]) -> list[dict[str, Any]]:
    """Every text as one detail, or as a stream would have told it: in fragments."""
    made: list[dict[str, Any]] = []
    for place, whole in enumerate(texts):
        cuts = [whole] if place % 2 else [whole[:1], whole[1:]]
        for number, cut in enumerate(filter(None, cuts)):
            marks = {"continues": True} if number else {}
            made.append({"type": kind, name: cut, **common, **marks})
    return made


@st.composite
def details(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The details of some reasoning items, with those of other upstreams between them."""
    made: list[dict[str, Any]] = []
    for index in range(draw(st.integers(min_value=0, max_value=2))):
        common = {"id": f"rs_{index}", "index": index, "format": draw(st.sampled_from(_FORMATS))}
        made += _pieces("reasoning.summary", "summary", draw(st.lists(spoken, max_size=2)), common)
        made += _pieces("reasoning.text", "text", draw(st.lists(spoken, max_size=2)), common)
        if draw(st.booleans()):
            made.append({"type": "reasoning.encrypted", "data": draw(text), **common})
        made += draw(st.lists(st.sampled_from(_FOREIGN), max_size=1))
    return made


_calls = st.lists(
    st.builds(
        lambda id, name, arguments: {
            "id": id,
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        },
        ids,
        spoken,
        text,
    ),
    max_size=2,
)
_annotations = st.lists(
    st.sampled_from(
        [
            {
                "type": "url_citation",
                "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1},
            },
            {"type": "file", "file": {"hash": "h", "content": []}},
        ]
    ),
    max_size=2,
)

instructing = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer"])}
    | {"content": text | st.lists(text_part, max_size=2)}
)
user = st.fixed_dictionaries(
    {"role": st.just("user"), "content": text | parts}, optional={"name": spoken}
)
assistant = st.fixed_dictionaries(
    {"role": st.just("assistant")},
    optional={
        "content": st.none() | text | parts,
        "refusal": st.none() | text,
        "reasoning": st.none() | text,
        "reasoning_details": st.none() | details(),
        "tool_calls": st.none() | _calls,
        "annotations": st.none() | _annotations,
        "images": st.none() | st.just([]),
        "model": st.just("acme/small"),
        "name": spoken,
    },
)
tool = st.fixed_dictionaries(
    {"role": st.just("tool"), "content": text | parts, "tool_call_id": ids},
    optional={"is_error": st.just(True)},
)
conversations = st.lists(instructing | user | assistant | tool, min_size=1, max_size=5)
