"""A stored trace as a page shows it: what was asked in words, then a row for each endpoint."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import dumps, loads
from routing.selection.replay import UNREADABLE, TraceRow, read_rows
from routing.selection.trace import VERSION

RULES: Final = {
    "balanced": "load balancing: a draw by price among the stable ones, then by price",
    "order": "the caller's order",
    "price": "lowest price first",
    "throughput": "highest throughput first",
    "latency": "shortest time to the first token first",
    "exacto": "best tool calling first",
    "priority": "service tier priority first, the fastest before others",
    "flex": "service tier flex, lowest price first",
}


def trace_table(text: str) -> SafeString:
    """The trace for a page; a dash where a generation has none that can be read."""
    try:
        trace = loads(text.encode())
        if not trace or trace.get("v") != VERSION:
            return format_html("{}", "-")
        rows = format_html_join("", "<tr><th>{}</th><td>{}</td></tr>", list_facts(trace))
        facts = format_html("<table><tbody>{}</tbody></table>", rows)
        endpoints = list(read_rows(trace))
        cells = {title: [cell(row) for row in endpoints] for title, cell in _COLUMNS.items()}
        # Columns that are empty in every row are left out.
        columns = {title: column for title, column in cells.items() if any(column)}
        heads = format_html_join("", "<th>{}</th>", ((title,) for title in columns))
        lines = [
            format_html_join("", "<td>{}</td>", ((cell or "-",) for cell in line))
            for line in zip(*columns.values(), strict=True)
        ]
        body = format_html_join("", "<tr>{}</tr>", ((line,) for line in lines))
        table = "{}<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>"
        return format_html(table, facts, heads, body)
    except (MalformedJson, *UNREADABLE):
        return format_html("{}", "-")


def list_facts(trace: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Asked for", ", ".join(trace["requested"])
    if trace["models"] != trace["requested"]:
        yield "Models", ", ".join(trace["models"])
    yield "Strategy", trace["strategy"]
    rule: str = trace["rule"]
    last = f"; {trace['last']} endpoints last" if "last" in trace else ""
    yield "Ordered by", RULES.get(rule, rule) + last
    yield "Request", _describe_facts(trace["ask"])
    if "policy" in trace:
        yield (
            "Policy",
            _describe_facts(trace["policy"]) + (", and more" if trace.get("cut") else ""),
        )
    if "stay" in trace:
        yield "Conversation", _describe_facts(trace["stay"])
    if "failed_step" in trace:
        yield "Nothing left after", trace["failed_step"]
    if "more" in trace:
        yield "Endpoints not shown", _describe_facts(trace["more"])


def _percentile(key: str, place: int, form: str) -> Callable[[TraceRow], str]:
    def cell(row: TraceRow) -> str:
        values = row.figures.get(key)
        return "" if not values or values[place] is None else form.format(values[place])

    return cell


def _figure(key: str, form: str) -> Callable[[TraceRow], str]:
    return lambda row: form.format(row.figures[key]) if key in row.figures else ""


def _describe_standing(row: TraceRow) -> str:
    words = [name.replace("_", " ") for name in row.health]
    words += ["sticky"] if row.sticky else []
    words += [f"own credential {place + 1}" for place in row.byok]
    words += ["own fallback credential"] if row.byok_fallback else []
    words += ["own credentials alone"] if row.unshared else []
    return ", ".join(words)


_COLUMNS: Final[Mapping[str, Callable[[TraceRow], str]]] = {
    "Endpoint": lambda row: row.tag,
    "Model": lambda row: row.model,
    "Place": lambda row: "" if row.place is None else str(row.place + 1),
    # Narrow columns would break a verdict of two words.
    "Verdict": lambda row: row.verdict.replace(" ", "\N{NO-BREAK SPACE}"),
    "Step or error": lambda row: row.why or "",
    "USD per million in / out": lambda row: " / ".join(f"{usd:.10g}" for usd in row.usd or ()),
    "Drawn with": lambda row: "" if row.weight is None else f"{row.weight:.2%}",
    "Standing": _describe_standing,
    "First token p50, s": _percentile("ttft", 0, "{:.3g}"),
    "First token p90, s": _percentile("ttft", 2, "{:.3g}"),
    "Tokens/s p50": _percentile("tps", 0, "{:.1f}"),
    "Tool calls good": _figure("tools", "{:.1%}"),
    "Uptime 30 min": _percentile("up", 1, "{:.2f}%"),
    "Calls": _figure("n", "{}"),
}


def _describe_facts(facts: Mapping[str, Any]) -> str:
    """`{"only": ["a", "b"], "zdr": true}` as `only: a, b; zdr`."""
    words = []
    for key, value in facts.items():
        name = key.replace("_", " ")
        if value is True:
            words.append(name)
        elif isinstance(value, list):
            words.append(f"{name}: {', '.join(map(str, value))}")
        elif isinstance(value, dict):
            words.append(f"{name}: {', '.join(f'{each} {item}' for each, item in value.items())}")
        else:
            words.append(f"{name}: {value if isinstance(value, str) else dumps(value).decode()}")
    return "; ".join(words)
