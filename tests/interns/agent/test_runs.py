"""The desk: one run at a time, whatever comes in between."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel

from interns.agent.config import Config
from interns.agent.events import Event
from interns.agent.gateway import Door
from interns.agent.loop import Loop
from interns.agent.runs import Desk, Prompt, Run, is_last
from interns.agent.sessions import Sessions

pytestmark = pytest.mark.thorough


def desk_of(folder: Path, model: FunctionModel) -> Desk:
    config = Config(
        intern_id="i",
        runtime_id="r",
        name="tester",
        token="t",
        instructions=None,
        model="",
        isolation="none",
        home=folder,
        gateway_socket="s",
        api_path="/api/v1",
    )
    for place in (config.workspace, config.sessions):
        place.mkdir(exist_ok=True)
    door = Door(httpx2.AsyncClient(), "i")
    return Desk(config, Loop(config, model), Sessions(config.sessions), door)


def prompt(run_id: str, text: str = "Hello") -> Prompt:
    return Prompt(run_id=run_id, session_id="s", text=text, manual=False, question_s=0.05)


async def to_the_end(run: Run) -> list[Event]:
    seen: list[Event] = []
    while not (seen and is_last(seen[-1])):
        seen.append(await asyncio.wait_for(run.stream.get(), 10))
    return seen


def heard(messages: list[ModelMessage]) -> list[str]:
    return [str(p.content) for m in messages for p in m.parts if p.part_kind == "user-prompt"]


async def echo(messages: list[ModelMessage], info: AgentInfo) -> Any:
    yield " and ".join(heard(messages))


def test_one_that_is_cancelled_before_its_first_step_is_over(tmp_path: Path) -> None:
    async def talk() -> None:
        desk = desk_of(tmp_path, FunctionModel(stream_function=echo))
        run = desk.begin(prompt("one"))
        assert run is not None
        assert await desk.cancel("one")
        assert (await to_the_end(run))[-1]["reason"] == "run_ended"
        assert desk.run is None
        after = desk.begin(prompt("two", "Again"))
        assert after is not None
        assert (await to_the_end(after))[-1]["type"] == "end"

    asyncio.run(talk())


def test_a_reader_who_leaves_at_once_frees_the_desk(tmp_path: Path) -> None:
    async def talk() -> None:
        desk = desk_of(tmp_path, FunctionModel(stream_function=echo))
        run = desk.begin(prompt("one"))
        assert run is not None
        desk.left(run)
        await to_the_end(run)
        assert desk.run is None

    asyncio.run(talk())


def test_text_that_comes_at_any_moment_is_heard(tmp_path: Path) -> None:
    """Steered after each number of steps of the event loop, until the run is over before."""

    async def talk(steps: int) -> bool:
        desk = desk_of(tmp_path, FunctionModel(stream_function=echo))
        run = desk.begin(prompt(f"run-{steps}", f"first-{steps}"))
        assert run is not None
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
        from pydantic_ai.models.function import DeltaToolCall

        arguments = '{"message": "Well?", "fields": []}'
        yield {0: DeltaToolCall(name="ask_person", json_args=arguments, tool_call_id="c")}

    async def talk() -> None:
        desk = desk_of(tmp_path, FunctionModel(stream_function=ask))
        run = desk.begin(prompt("one"))
        assert run is not None
        assert (await to_the_end(run))[-1]["type"] == "question"
        assert (await to_the_end(run))[-1]["reason"] == "timeout"
        assert desk.run is None

    asyncio.run(talk())
