"""How long each part of a run takes."""

from types import SimpleNamespace
from typing import Any, Final

# Intervals in seconds; a pair is one interval of the gateway and one of its ceiling.
Plan = SimpleNamespace
# A whole run; `--quick`; and one part alone, between two changes of the code.
_PLANS: Final[dict[str, tuple[Any, Any, Any]]] = {
    "warm_up_s": (5, 1, 2),
    "growth_requests": (20_000, 2_000, 20_000),
    "busy_pairs": (7, 2, 3),
    "busy_s": (10, 2, 3),
    "single_pairs": (5, 2, 3),
    "single_s": (5, 1, 2),
    "probe_s": (2, 0.5, 1),
    "commits_s": (15, 2, 5),
    "selection_rounds": (5, 1, 3),
    "selection_s": (3, 0.6, 1.5),
    "stream_pairs": (3, 1, 2),
    "stream_chunks": (200, 60, 100),
    "format_rounds": (3, 1, 1),
    "format_chunks": (200, 60, 100),
    "first_token_s": (2, 0.4, 1),
    "translating_s": (3, 0.7, 1.5),
    "observing_pairs": (30, 2, 20),
    "observing_s": (3, 0.7, 3),
    "flood_pairs": (3, 1, 3),
    "flood_s": (10, 2, 10),
    "guesses_pairs": (5, 2, 5),
    "guesses_s": (10, 2, 10),
    "second_starts": (3, 1, 1),
    "history_rows": (1_000_000, 20_000, 1_000_000),
    "history_rounds": (20, 2, 20),
    "console_rounds": (20, 2, 20),
}
FULL, QUICK, BRIEF = (
    Plan(**{name: of[column] for name, of in _PLANS.items()}) for column in range(3)
)
PARTS = (
    *("memory", "requests", "rules", "selection", "single", "commits", "streams", "formats"),
    *(
        "decisions",
        "tools",
        "observing",
        "flood",
        "guesses",
        "tokens",
        "history",
        "console",
        "start",
    ),
)
BUSY_CONNECTIONS = 64
STREAMS = 200
# Slow enough that the simulated upstream and two web workers share two cores with room to spare.
CHUNKS_PER_S = 20
