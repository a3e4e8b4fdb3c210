"""The table, and the comparison with an earlier run."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.load.figures import REQUIRED, Figure

REGRESSION_SHARE = 0.10
_HEADINGS = ("Figure", "Measured", "Required", "Met", "")
# What has to be alike for two runs to say something about the code.
_ALIKE = ("cores", "load_generator", "upstream", "stream_upstream", "quick")


def table(lines: Sequence[Figure]) -> str:
    """Each figure with the required value beside it."""
    return aligned([_HEADINGS, *map(_row, lines)])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equally many cells as text, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    told = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(told) + "\n"


def _row(figure: Figure) -> tuple[str, ...]:
    told = figure.as_json()
    unit = f" {told['unit']}" if told["unit"] else ""
    value = "-" if figure.value is None else f"{figure.value:.2f}{unit}"
    met = {True: "yes", False: "no", None: "-"}[told["met"]]
    return told["text"], value, told["required"] + unit, met, figure.note


def ratios(document: Mapping[str, Any]) -> dict[str, float]:
    """What is compared: the ratios that a run's document holds, by the figure's name."""
    figures = document.get("figures", {})
    found = {one.name: figures.get(one.name, {}).get("value") for one in REQUIRED if one.is_ratio}
    return {name: float(value) for name, value in found.items() if value is not None}


def regressions(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A line for each ratio that got worse by more than a tenth. Both are documents of runs."""
    old, new = ratios(before), ratios(now)
    return [
        f"{one.text}: was {old[one.name]:.2f}, is {new[one.name]:.2f}"
        for one in REQUIRED
        if one.name in old.keys() & new.keys()
        and one.is_worse(before=old[one.name], now=new[one.name], by=REGRESSION_SHARE)
    ]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A line for each condition under which the runs differ so that comparing them says little."""
    old, new = before.get("conditions", {}), now["conditions"]
    return [
        f"{name}: was {old.get(name)}, is {new[name]}"
        for name in _ALIKE
        if old.get(name) != new[name]
    ]
