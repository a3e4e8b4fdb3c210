"""How long each part of a run takes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """Intervals in seconds; a pair is one interval of the gateway and one of its ceiling."""

    warm_up_s: float
    growth_requests: int
    busy_pairs: int
    busy_s: float
    single_pairs: int
    single_s: float
    probe_s: float
    commits_s: float
    selection_rounds: int
    selection_s: float
    stream_pairs: int
    stream_chunks: int
    format_rounds: int
    format_chunks: int
    first_token_s: float
    translating_s: float
    second_starts: int
    history_rows: int
    history_rounds: int


FULL = Plan(
    warm_up_s=5,
    growth_requests=20_000,
    busy_pairs=7,
    busy_s=10,
    single_pairs=5,
    single_s=5,
    probe_s=2,
    commits_s=15,
    selection_rounds=5,
    selection_s=3,
    stream_pairs=3,
    stream_chunks=200,
    format_rounds=3,
    format_chunks=200,
    first_token_s=2,
    translating_s=3,
    second_starts=3,
    history_rows=1_000_000,
    history_rounds=20,
)
QUICK = Plan(
    warm_up_s=1,
    growth_requests=2_000,
    busy_pairs=2,
    busy_s=2,
    single_pairs=2,
    single_s=1,
    probe_s=0.5,
    commits_s=2,
    selection_rounds=1,
    selection_s=0.6,
    stream_pairs=1,
    stream_chunks=60,
    format_rounds=1,
    format_chunks=60,
    first_token_s=0.4,
    translating_s=0.7,
    second_starts=1,
    history_rows=20_000,
    history_rounds=2,
)
# For one part alone, between two changes of the code.
BRIEF = Plan(
    warm_up_s=2,
    growth_requests=20_000,
    busy_pairs=3,
    busy_s=3,
    single_pairs=3,
    single_s=2,
    probe_s=1,
    commits_s=5,
    selection_rounds=3,
    selection_s=1.5,
    stream_pairs=2,
    stream_chunks=100,
    format_rounds=1,
    format_chunks=100,
    first_token_s=1,
    translating_s=1.5,
    second_starts=1,
    history_rows=1_000_000,
    history_rounds=20,
)
PARTS = (
    *("memory", "requests", "rules", "selection", "single", "commits", "streams", "formats"),
    *("decisions", "tools", "history", "start"),
)
BUSY_CONNECTIONS = 64
STREAMS = 200
# Slow enough that the simulated upstream and two web workers share two cores with room to spare.
CHUNKS_PER_S = 20
