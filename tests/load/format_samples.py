"""What the part about formats measured, and its figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tests.load.crossings import CROSSINGS, Crossing
from tests.load.figures import Pair, Part, median_ratio, medians
from tests.load.plan import STREAMS
from tests.load.translating import TRANSLATIONS, Translating


@dataclass(frozen=True)
class FirstTokens:
    """One connection, streams over one wire. Milliseconds at p50: of a plain request through the
    gateway and straight from its upstream; to the first text of a stream by crossing, and straight
    from the upstream."""

    plain_ms: float
    plain_direct_ms: float
    governed_ms: Mapping[str, float]
    direct_ms: float

    @property
    def plain_added_ms(self) -> float:
        return self.plain_ms - self.plain_direct_ms

    def added_ms(self, crossing: Crossing) -> float:
        return self.governed_ms[crossing.name] - self.direct_ms


@dataclass(frozen=True)
class Formats:
    """`streams` are pairs of the gateway and the bare relay over the same wire, by crossing;
    `first_tokens` stand by wire kind."""

    streams: Mapping[str, Sequence[Pair]]
    first_tokens: Mapping[str, Sequence[FirstTokens]]
    translating: Sequence[Translating]


def formats_part(formats: Formats) -> Part:
    """Everything in one part."""
    parts = [
        _streams_part(formats.streams),
        _first_token_part(formats.first_tokens),
        _translating_part(formats.translating),
    ]
    return Part(
        {name: value for part in parts for name, value in part.values.items()},
        {name: note for part in parts for name, note in part.notes.items()},
    )


def _streams_part(streams: Mapping[str, Sequence[Pair]]) -> Part:
    ratios, notes = {}, {}
    for crossing in CROSSINGS:
        pairs = streams[crossing.name]
        cpu = medians(pairs, lambda one: one.cpu_us_per_unit)
        name = f"chunk_{crossing.name}"
        ratios[name] = median_ratio(pairs, lambda one: one.cpu_us_per_unit)
        notes[name] = f"{cpu['governed']:.1f} us and {cpu['ceiling']:.1f} us, {STREAMS} streams"
    return Part(ratios, notes)


def _first_token_part(by_wire: Mapping[str, Sequence[FirstTokens]]) -> Part:
    """The crossing that adds most, for what a plain request adds at the same time."""
    ratios = {
        each: median(one.added_ms(each) / one.plain_added_ms for one in by_wire[each.wire])
        for each in CROSSINGS
    }
    slowest = max(CROSSINGS, key=lambda each: ratios[each])
    added_ms = median(one.added_ms(slowest) for one in by_wire[slowest.wire])
    plain_ms = median(one.plain_added_ms for one in by_wire[slowest.wire])
    least = min(ratios.values())
    note = f"{added_ms:.2f} ms and {plain_ms:.2f} ms, {slowest.told}; the least {least:.2f} x"
    return Part({"first_text_ratio": ratios[slowest]}, {"first_text_ratio": note})


def _translating_part(rounds: Sequence[Translating]) -> Part:
    values, notes = {}, {}
    for caller, wire in TRANSLATIONS:
        name = f"translating_{caller}_{wire}"
        values[name] = median(one.ratio(caller, wire) for one in rounds)
        translating_us = median(one.translating_us(caller, wire) for one in rounds)
        parsing_us = median(one.parsing_us[caller] for one in rounds)
        size_kb = rounds[0].body_bytes[caller] / 1e3
        notes[name] = f"{translating_us:.0f} us and {parsing_us:.0f} us, {size_kb:.0f} KB"
    return Part(values, notes)
