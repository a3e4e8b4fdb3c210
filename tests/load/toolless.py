"""CPU of what server tools and plugins do to a request that names none of them:
`python -m tests.load.toolless SECONDS`.

Times the steps of the pipeline that are theirs. Prints a `Toolless` as JSON.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from tests.load.apart import print_measured, timed_us

_MESSAGES: Final = [{"role": "user", "content": "Say the same again."}]
_BODY: Final = {"model": "bench/whole", "messages": _MESSAGES, "max_tokens": 400}
_DISABLED: Final = frozenset({"router:bash", "router:web_search"})


@dataclass(frozen=True)
class Toolless:
    """Microseconds of CPU for one request."""

    steps_us: float


def walk() -> Callable[[], None]:
    """All steps once, in the pipeline's order, for a request as the bench asks them."""
    from accounts.caller import Caller
    from routing.formats.chat.format import CHAT
    from routing.planning.server_tools import (
        equip_request,
        refuse_disabled_tools,
        refuse_what_nothing_runs,
    )
    from routing.plugins.interface import PluginContext, rewrite_message
    from routing.plugins.registry import add_plugins

    chat = CHAT.parse(dict(_BODY), session_header=None, models_max=3)
    context = PluginContext(cast(Caller, None), (), time.monotonic() + 600)
    disabled = partial(refuse_disabled_tools, _DISABLED)
    message, stages = {"role": "assistant", "content": "The same."}, list[dict[str, Any]]()

    def steps() -> None:
        asked, plugins = add_plugins(chat, "")
        disabled(asked.body, plugins=asked.plugins, references=["bench/whole"])
        refuse_what_nothing_runs(asked)
        for plugin in plugins:
            asked = plugin.change_request(asked, context)
            plugin.find_refusal(asked, context)
        asked, loop = equip_request(asked)
        assert loop is None
        rewrite_message(plugins, asked, message, stages)

    return steps


def measure_toolless(seconds: float) -> Toolless:
    steps = walk()
    timed_us(steps, seconds=seconds / 10)
    return Toolless(timed_us(steps, seconds=seconds))


if __name__ == "__main__":
    print_measured(measure_toolless)
