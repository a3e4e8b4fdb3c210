"""The measured intervals of callers of three formats over upstreams of three kinds."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from tests.load.accounting import WebProcesses
from tests.load.apart import measured_apart
from tests.load.crossings import (
    BY_WIRE,
    CONTENT,
    CROSSINGS,
    FORMATS,
    Crossing,
    check_direct_stream,
    check_governed_stream,
    direct_target,
    governed_target,
)
from tests.load.figures import Interval, Pair
from tests.load.first_tokens import first_content_ms
from tests.load.format_samples import FirstTokens, Formats
from tests.load.generators import LoadFailed, Target
from tests.load.plan import CHUNKS_PER_S, STREAMS, Plan
from tests.load.stand import Stand
from tests.load.streams import ENDS, measured_streams
from tests.load.translating import Translating

_GRACE_S: Final = 60.0
_WARM_UP_WORDS: Final = 5
# The rest of a stream whose first word counts.
_SHORT_WORDS: Final = 2
_PLAIN: Final = re.compile(rb'"content"')


@dataclass
class FormatMeasures:
    """Measures on one stand; `plain` and `plain_direct` are what a plain request is."""

    stand: Stand
    plan: Plan
    plain: Target
    plain_direct: Target
    say: Callable[[str], None]
    answered: int = field(default=0, init=False)

    def all(self) -> Formats:
        """Everything, each answer looked at before."""
        self.stand.pace_streams()
        self._look()
        streams, first_tokens = self._streams(), self._first_tokens()
        return Formats(
            streams, first_tokens, [self._translating() for _ in range(self.plan.format_rounds)]
        )

    def _look(self) -> None:
        """Also the first time of everything, for which no interval shall pay."""
        words = _WARM_UP_WORDS
        for wire, crossings in BY_WIRE.items():
            check_direct_stream(wire, self._direct(wire, "paced", words), words)
            check_direct_stream(wire, self._relay(wire, words), words)
            self._read_relay(wire, words)
            for each in crossings:
                check_governed_stream(each.caller, self._governed(each, "paced", words), words)
                self.answered += 1
                self._read_governed(each, words)

    def _streams(self) -> dict[str, list[Pair]]:
        """Over each wire two crossings take the bare relay between them."""
        pairs: dict[str, list[Pair]] = {crossing.name: [] for crossing in CROSSINGS}
        words = self.plan.format_chunks
        for number in range(self.plan.format_rounds):
            for wire, (before, after) in BY_WIRE.items():
                self.say(f"{STREAMS} streams over {wire}, round {number + 1}")
                first = self._read_governed(before, words)
                relay = self._read_relay(wire, words)
                pairs[before.name].append(Pair(first, relay))
                pairs[after.name].append(Pair(self._read_governed(after, words), relay))
        return pairs

    def _read_governed(self, crossing: Crossing, words: int) -> Interval:
        target = self._governed(crossing, "paced", words)
        done = self._interval(target, self.stand.web, ends=ENDS[crossing.caller], words=words)
        self.answered += STREAMS
        return done

    def _read_relay(self, wire: str, words: int) -> Interval:
        # No upstream of the responses format says `[DONE]` behind its last event.
        ends, web = ENDS[FORMATS[wire]][:1], self.stand.ceiling.web
        return self._interval(self._relay(wire, words), web, ends=ends, words=words)

    def _interval(
        self, target: Target, web: WebProcesses, *, ends: tuple[bytes, ...], words: int
    ) -> Interval:
        within_s = words / CHUNKS_PER_S + _GRACE_S
        done = measured_streams(target, web, streams=STREAMS, within_s=within_s, ends=ends)
        if done.units < STREAMS * words:
            raise LoadFailed(f"{target.url}: {done.units} events in {STREAMS} x {words} words")
        return done

    def _first_tokens(self) -> dict[str, list[FirstTokens]]:
        found: dict[str, list[FirstTokens]] = {wire: [] for wire in BY_WIRE}
        for number in range(self.plan.format_rounds):
            for wire, samples in found.items():
                self.say(f"first texts over {wire}, 1 connection, round {number + 1}")
                samples.append(self._first_tokens_over(wire))
        return found

    def _first_tokens_over(self, wire: str) -> FirstTokens:
        """What is compared stands side by side."""
        direct = self._direct(wire, "lively", _SHORT_WORDS)
        return FirstTokens(
            plain_ms=self._counted_ms(self.plain, _PLAIN),
            plain_direct_ms=self._p50_ms(self.plain_direct, _PLAIN),
            governed_ms={each.name: self._first_text_ms(each) for each in BY_WIRE[wire]},
            direct_ms=self._p50_ms(direct, CONTENT[FORMATS[wire]]),
        )

    def _first_text_ms(self, crossing: Crossing) -> float:
        target = self._governed(crossing, "lively", _SHORT_WORDS)
        return self._counted_ms(target, CONTENT[crossing.caller])

    def _counted_ms(self, target: Target, content: re.Pattern[bytes]) -> float:
        """Of the gateway, whose books hold every answer."""
        found_ms = first_content_ms(target, content, seconds=self.plan.first_token_s)
        self.answered += len(found_ms)
        return median(found_ms)

    def _p50_ms(self, target: Target, content: re.Pattern[bytes]) -> float:
        return median(first_content_ms(target, content, seconds=self.plan.first_token_s))

    def _translating(self) -> Translating:
        self.say("translating a conversation")
        module = "tests.load.translating"
        found = measured_apart(self.stand, module, seconds=self.plan.translating_s)
        return Translating(**found)

    def _governed(self, crossing: Crossing, persona: str, words: int) -> Target:
        return governed_target(
            crossing,
            root_url=self.stand.gateway.root_url,
            key=self.stand.key,
            model=f"bench/{persona}-{crossing.wire}",
            words=words,
        )

    def _direct(self, wire: str, persona: str, words: int) -> Target:
        base_url = f"{self.stand.simulator.url}/{persona}/v1"
        return direct_target(wire, base_url=base_url, model="bench", words=words)

    def _relay(self, wire: str, words: int) -> Target:
        base_url = f"{self.stand.ceiling.root_url}/relay"
        return direct_target(wire, base_url=base_url, model="bench", words=words)
