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
    rows = [_HEADINGS, *map(_row, lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    told = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(told) + "\n"


def _row(figure: Figure) -> tuple[str, ...]:
    told = figure.as_json()
    unit = f" {told['unit']}" if told["unit"] else ""
    value = "-" if figure.value is None else f"{figure.value:.2f}{unit}"
    met = {True: "yes", False: "no", None: "-"}[told["met"]]
    return told["text"], value, told["required"] + unit, met, figure.note


def regressions(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A line for each ratio that got worse by more than a tenth. Both are documents of runs."""
    found = []
    for required in REQUIRED:
        old, new = _value(before, required.name), _value(now, required.name)
        if not required.is_ratio or old is None or new is None:
            continue
        if required.is_worse(before=old, now=new, by=REGRESSION_SHARE):
            found.append(f"{required.text}: was {old:.2f}, is {new:.2f}")
    return found


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A line for each condition under which the runs differ so that comparing them says little."""
    old, new = before.get("conditions", {}), now["conditions"]
    return [
        f"{name}: was {old.get(name)}, is {new[name]}"
        for name in _ALIKE
        if old.get(name) != new[name]
    ]


def _value(document: Mapping[str, Any], name: str) -> float | None:
    value = document.get("figures", {}).get(name, {}).get("value")
    return None if value is None else float(value)
