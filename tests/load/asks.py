"""What the bench asks, and what it must hear. One answer is looked at before thousands are counted,
since a fast wrong answer would be a fine figure."""

import json
from typing import Any, Final

from tests.load.crossings import stream_request
from tests.load.stand import COMPLETION_NANO, PROMPT_NANO
from tests.load.targets import LoadFailed

STEPS: Final = 5
QUESTIONS: Final = 20
# The upstream says it every time, also in the last turn, where nobody listens.
TOOL_CALL: Final[dict[str, Any]] = {"tool_calls": [{"name": "datetime", "arguments": {}}]}
_STATE: Final = "The parcel came a week late and the box was open. I want my money back. " * 4


def _chat(model: str, text: str, **options: Any) -> str:
    messages = [{"role": "user", "content": text}]
    return json.dumps({"model": f"bench/{model}", "messages": messages, **options})


def whole_body() -> str:
    """What every request that is no stream asks."""
    return _chat("whole", "Say the same again.", max_tokens=400)


def unknown_body() -> str:
    """What is refused: nobody knows the model."""
    return _chat("unknown", "Say the same again.")


def stream_body(chunks: int) -> str:
    """Asks the simulated upstream for a stream of that many words, each a chunk."""
    return stream_request("chat", "bench/paced", chunks)


def loop_body() -> str:
    """Five steps of a server tool, one by one, and the last turn."""
    return _chat("tools", "What time?", tools=[{"type": "router:datetime"}], max_tool_calls=STEPS)


def call_body() -> str:
    """One call of the same model, with a function of the caller's."""
    function = {"name": "datetime", "description": "Tells the time.", "parameters": {}}
    return _chat("tools", "What time?", tools=[{"type": "function", "function": function}])


def decisions_body() -> str:
    """Questions of every type about one state."""
    noul = {"type": "noul"}
    choice = {"type": "choice", "criteria": {"refund": "Money back", "repair": None, "other": None}}
    score = {"type": "score", "criteria": ["calm", "annoyed", "furious"]}
    kinds: list[dict[str, Any]] = [noul, choice, score, noul]
    questions = {
        f"q{n}": kinds[n % len(kinds)] | {"instructions": f"Question {n}: what is asked for?"}
        for n in range(QUESTIONS)
    }
    return json.dumps({"model": "bench/judging", "state": _STATE, "questions": questions})


def question_body() -> str:
    """What one question would be as a chat."""
    text = f"{_STATE}\nIs money asked for? Answer yes or no."
    return _chat("judging", text, max_tokens=1, temperature=0)


def check_passed_on(answer: dict[str, Any], direct: dict[str, Any]) -> None:
    """`answer` says what the upstream says. Raises `LoadFailed`."""
    if (told := _read_answer(answer)) != (meant := _read_answer(direct)):
        raise LoadFailed(f"the upstream's {meant!r} arrived as {told!r}")


def check_governed(answer: dict[str, Any], direct: dict[str, Any]) -> None:
    """It is also priced by the tokens it reports, so its body was read. Raises `LoadFailed`."""
    check_passed_on(answer, direct)
    _, prompt, completion = _read_answer(answer)
    due_nano = prompt * PROMPT_NANO + completion * COMPLETION_NANO
    cost_nano = round(answer["usage"].get("cost", 0) * 1e9)
    if not due_nano or cost_nano != due_nano:
        raise LoadFailed(f"{prompt} and {completion} tokens cost {cost_nano}, not {due_nano} nano")


def check_loop(answer: dict[str, Any]) -> None:
    """Raises `LoadFailed` where it is no loop of so many steps."""
    used = answer["usage"].get("server_tool_use_details") or {}
    if used.get("tool_calls_executed") != STEPS:
        raise LoadFailed(f"a loop of {used} steps, not of {STEPS}")


def check_decided(answer: dict[str, Any]) -> None:
    """Every question was answered with a distribution. Raises `LoadFailed`."""
    answers = answer["answers"].values()
    sums = [sum(each["probabilities"].values()) for each in answers if "probabilities" in each]
    if len(answers) != QUESTIONS or any(abs(total - 1) > 1e-9 for total in sums):
        raise LoadFailed(f"these are no decisions: {answer}")


def _read_answer(answer: dict[str, Any]) -> tuple[str, int, int]:
    """Its text, and its tokens: prompt and completion."""
    text, usage = answer["choices"][0]["message"]["content"], answer["usage"]
    return text, usage["prompt_tokens"], usage["completion_tokens"]
