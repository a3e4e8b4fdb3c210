"""The desk: one run at a time, whatever comes in between."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from interns.agent.config import AgentConfig
from interns.agent.events import Event
from interns.agent.gateway import TRACEPARENT, GatewayClient
from interns.agent.loop import AgentLoop
from interns.agent.runs import InternRun, RunDesk, RunPrompt, is_last
from interns.agent.sessions import AgentSessions

pytestmark = pytest.mark.thorough
NAMES = ("intern_id", "runtime_id", "name", "token", "gateway_socket", "isolation")
FACTS: Any = dict.fromkeys(NAMES, "x") | {"instructions": None, "model": "", "api_path": "/api/v1"}


def desk_of(folder: Path, model: FunctionModel) -> RunDesk:
    config = AgentConfig(**FACTS, home=folder)
    for place in (config.workspace, config.sessions):
        place.mkdir(exist_ok=True)
    door = GatewayClient(httpx2.AsyncClient(), "i")
    return RunDesk(config, AgentLoop(config, model), AgentSessions(config.sessions), door)


def begin(desk: RunDesk, run_id: str, text: str = "Hello") -> InternRun:
    run = desk.begin(
        RunPrompt(run_id=run_id, session_id="s", text=text, manual=False, question_s=0.05)
    )
    assert run is not None
    return run


async def to_the_end(run: InternRun) -> list[Event]:
    seen: list[Event] = []
    while not (seen and is_last(seen[-1])):
        seen.append(await asyncio.wait_for(run.stream.get(), 10))
    return seen


def list_prompts(messages: list[ModelMessage]) -> list[str]:
    return [str(p.content) for m in messages for p in m.parts if p.part_kind == "user-prompt"]


async def echo(messages: list[ModelMessage], info: AgentInfo) -> Any:
    yield " and ".join(list_prompts(messages))


def test_what_an_agent_asks_of_models_carries_the_turn_s_trace(tmp_path: Path) -> None:
    sent = []

    async def look(messages: list[ModelMessage], info: AgentInfo) -> Any:
        sent.append(TRACEPARENT.get())
        yield "Done."

    async def talk() -> None:
        desk = desk_of(tmp_path, FunctionModel(stream_function=look))
        for name, traceparent in (("one", "00-a-b-01"), ("two", "")):
            prompt = RunPrompt(
                run_id=name,
                session_id="s",
                text="Hello",
                manual=False,
                question_s=1,
                traceparent=traceparent,
            )
            run = desk.begin(prompt)
            assert run is not None
            await to_the_end(run)

    asyncio.run(talk())

    assert sent == ["00-a-b-01", ""]


def test_a_run_that_is_cancelled_or_left_at_once_frees_the_desk(tmp_path: Path) -> None:
    async def talk() -> None:
        desk = desk_of(tmp_path, FunctionModel(stream_function=echo))
        cancelled = begin(desk, "one")
        assert await desk.cancel("one")
        assert (await to_the_end(cancelled))[-1]["reason"] == "run_ended"
        assert desk.run is None
        left = begin(desk, "two")
        desk.abandon(left)
        await to_the_end(left)
        assert desk.run is None
        assert (await to_the_end(begin(desk, "three", "Again")))[-1]["type"] == "end"

    asyncio.run(talk())


def test_text_that_comes_at_any_moment_is_heard(tmp_path: Path) -> None:
    """Steered after each number of steps of the event loop, until the run is over before."""

    async def talk(steps: int) -> bool:
        desk = desk_of(tmp_path, FunctionModel(stream_function=echo))
        run = begin(desk, f"run-{steps}", f"first-{steps}")
        for _ in range(steps):
            await asyncio.sleep(0)
        if desk.run is None:
            return False
        desk.steer(f"run-{steps}", f"second-{steps}")
        seen = await to_the_end(run)
        said = "".join(event["text"] for event in seen if event["type"] == "content")
        assert f"second-{steps}" in said, (steps, seen)
        return True

    steps = 0
    while asyncio.run(talk(steps)):
        steps += 1
    assert steps > 5


def test_a_question_that_nobody_answers_ends_the_run(tmp_path: Path) -> None:
    async def ask(messages: list[ModelMessage], info: AgentInfo) -> Any:
        arguments = '{"message": "Well?", "fields": []}'
        yield {0: DeltaToolCall(name="ask_person", json_args=arguments, tool_call_id="c")}

    async def talk() -> None:
        desk = desk_of(tmp_path, FunctionModel(stream_function=ask))
        run = begin(desk, "one")
        assert (await to_the_end(run))[-1]["type"] == "question"
        assert (await to_the_end(run))[-1]["reason"] == "timeout"
        assert desk.run is None

    asyncio.run(talk())
