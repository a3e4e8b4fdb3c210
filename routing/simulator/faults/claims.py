"""Well-formed answers that say something false or unwelcome."""

from collections.abc import Awaitable, Callable
from typing import Any

from routing.simulator.call import Call
from routing.simulator.faults.base import Fault
from routing.simulator.prompt import token_limit

ABSURD = 10**12
Run = Callable[[Call], Awaitable[None]]


def saying(**override: Any) -> Run:
    """A fault that is the normal answer with parts replaced."""

    async def run(call: Call) -> None:
        call.reply(**override)

    return run


def usage(prompt_tokens: Any, completion_tokens: Any, total_tokens: Any) -> Run:
    return saying(
        usage={
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": total_tokens,
        }
    )


async def over_limit(call: Call) -> None:
    said: dict[str, int] = dict(call.answer().usage)
    completion = 2 * (token_limit(call.asked) or said["completion_tokens"]) + 10
    await usage(said["prompt_tokens"], completion, said["prompt_tokens"] + completion)(call)


async def zero_completion(call: Call) -> None:
    prompt_tokens = call.answer().usage["prompt_tokens"]
    claimed = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": 0,
        "total_tokens": prompt_tokens,
    }
    call.reply(text="", finish_reason=None, usage=claimed)


PARTIAL = "Simulated answer"

FAULTS = {
    "missing-usage": Fault("a good answer without usage", saying(usage=None)),
    "usage-negative": Fault("negative token counts", usage(-5, -7, -12)),
    "usage-absurd": Fault("10^12 tokens of each kind", usage(ABSURD, ABSURD, 2 * ABSURD)),
    "usage-string": Fault("token counts as strings", usage("12", "34", "46")),
    "error-finish": Fault(
        "partial text with finish_reason error", saying(text=PARTIAL, finish_reason="error")
    ),
    "refusal": Fault(
        "the model refuses in a normal answer",
        saying(refusal="Simulated refusal: I cannot help with that."),
    ),
    "content-filter": Fault(
        "partial text with finish_reason content_filter",
        saying(text=PARTIAL, finish_reason="content_filter"),
    ),
    "over-limit": Fault("reports more completion tokens than the request allowed", over_limit),
    "zero-completion": Fault("no text, no finish reason, no completion tokens", zero_completion),
}
