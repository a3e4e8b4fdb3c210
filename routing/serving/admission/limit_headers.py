"""What is left of a request's rate limits, in the headers that the official clients' users read."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from gateway.http.jsonio import format_time
from gateway.limits.limits import Exceeded, Limit, Taken, find_window_start, rate_limiter
from gateway.limits.rules import TOKENS, list_windows
from routing.serving.admission.endpoint_limits import KEY_TOKENS, list_own_rules, read_marks
from routing.serving.request.context import RequestProgress

_MESSAGES: Final = "messages"


class _Standing(NamedTuple):
    left: int
    limit: Limit
    reset_s: int


def build_limit_headers(
    progress: RequestProgress, taken: Taken | None, *, now_s: float
) -> dict[str, str]:
    """Of the tightest limits of requests and of tokens: how much they allow, what is left of that
    as far as this process knows, and when they begin anew. `now_s` is Unix time.

    `taken` is what the request took as it came in. Once it has been sent, rules of key and
    workspace that name the model or provider count too. Those that are shared are not told.
    """
    if taken is None and not progress.context.caller.rate_rules:
        return {}
    windows = [] if taken is None else list(zip(taken.limits, taken.starts, strict=True))
    attempt = progress.last_attempt
    if attempt is not None:
        marks = read_marks(progress)
        for rule in list_own_rules(progress, attempt.endpoint):
            windows += [
                (limit, find_window_start(now_s, limit.window_s))
                for limit in list_windows(rule, marks, tokens=1)
            ]
    headers: dict[str, str] = {}
    for word, is_tokens in (("requests", False), ("tokens", True)):
        standings = [
            _measure(limit, start)
            for limit, start in windows
            if limit.scope.startswith((TOKENS, KEY_TOKENS)) is is_tokens
        ]
        if standings:
            headers |= _write(word, standings, progress.context.format.name, now_s)
    return headers


def describe_stay(progress: RequestProgress) -> dict[str, str]:
    """The place in the queue that the request had to begin with, and how long it waited there."""
    stay = progress.queue_stay
    if stay is None:
        return {}
    waited_ms = round(stay.waited_s * 1000)
    return {"X-Router-Queue-Place": str(stay.place), "X-Router-Queue-Ms": str(waited_ms)}


def describe_exceeded(exceeded: Exceeded, format_name: str) -> dict[str, str]:
    """The same of the limit that is used up."""
    limit = exceeded.limit
    word = "tokens" if limit.scope.startswith((TOKENS, KEY_TOKENS)) else "requests"
    left = max(0, limit.most - exceeded.used)
    standing = _Standing(left, limit, exceeded.reset_s)
    return _write(word, [standing], format_name, exceeded.at_s)


def _measure(limit: Limit, start: int) -> _Standing:
    left = max(0, limit.most - rate_limiter().estimate_used(limit))
    return _Standing(left, limit, start + limit.window_s)


def _write(
    word: str, standings: Sequence[_Standing], format_name: str, now_s: float
) -> dict[str, str]:
    left, limit, reset_s = min(standings)
    if format_name == _MESSAGES:
        moment = format_time(datetime.fromtimestamp(reset_s, UTC))
        values = {"limit": str(limit.most), "remaining": str(left), "reset": moment}
        return {f"anthropic-ratelimit-{word}-{name}": value for name, value in values.items()}
    seconds = f"{max(0, round(reset_s - now_s))}s"
    values = {"limit": str(limit.most), "remaining": str(left), "reset": seconds}
    return {f"x-ratelimit-{name}-{word}": value for name, value in values.items()}
