"""The official `openai` package, unmodified, in a conversation with an intern."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI

from tests.interns.chat.room import Room
from tests.interns.chat.scripted_agent import ELICITATION, END, MODEL, PERMISSION, content, question


@pytest.fixture
def client(room: Room) -> Iterator[OpenAI]:
    url = f"{room.server.base_url}/interns/{room.intern_id}"
    with OpenAI(api_key=room.account.api_key, base_url=url, max_retries=0, timeout=20) as client:
        yield client


class Conversation:
    """What a caller keeps of one: the messages, and the session that the last chunk named."""

    def __init__(self, client: OpenAI) -> None:
        self._client = client
        self.messages: list[Any] = []
        self.extra: dict[str, Any] = {}
        self.usage: Any = None

    def turn(self, **message: Any) -> tuple[str, Any]:
        """What was said, and the tool call where there is one."""
        self.messages.append(message)
        said: str = ""
        call: Any = None
        stream: Any = self._client.chat.completions.create(
            model="any", messages=self.messages, stream=True, extra_body=self.extra
        )
        for chunk in stream:
            for choice in chunk.choices:
                said += choice.delta.content or ""
                call = (choice.delta.tool_calls or [call])[0]
            if not chunk.choices:
                assert chunk.model_extra
                self.extra = {"session_id": chunk.model_extra["session_id"]}
                self.usage = chunk.usage
        answer: dict[str, Any] = {"role": "assistant", "content": said or None}
        if call is not None:
            answer["tool_calls"] = [call.model_dump(exclude={"index"})]
        self.messages.append(answer)
        return said, call


def test_from_a_prompt_over_two_questions_to_the_end(client: OpenAI, room: Room) -> None:
    room.agent.script(
        *(MODEL, content("Let me see. "), question(PERMISSION), content("And now?")),
        *(question(ELICITATION, id="call-2"), content("Blue it is."), END),
    )
    talk = Conversation(client)

    said, call = talk.turn(role="user", content="Paint it.")
    assert said == "Let me see. "
    assert call.function.name == "router.provide_input"
    assert json.loads(call.function.arguments) == PERMISSION
    assert [talk.usage] == [None]

    said, call = talk.turn(role="tool", tool_call_id=call.id, content="allow_once")
    assert said == "And now?"
    assert json.loads(call.function.arguments) == ELICITATION

    answer = json.dumps({"action": "accept", "content": {"colour": "blue"}})
    said, call = talk.turn(role="tool", tool_call_id=call.id, content=answer)
    assert (said, call) == ("Blue it is.", None)
    assert talk.usage.total_tokens == 12
    assert talk.usage.prompt_tokens_details.cached_tokens == 3

    assert len(room.runs()) == 1
    assert talk.turn(role="user", content="Thanks.")[0] == "Hello"
    assert [run.session.session_id for run in room.runs()] == [talk.extra["session_id"]] * 2
