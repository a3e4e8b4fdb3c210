"""One log line for each inference request that ended."""

import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

import orjson

from gateway.http.jsonio import format_usd, usd
from routing.reports.report import RequestReport

log: Final = logging.getLogger("routing.requests")

_RED, _YELLOW, _GREEN, _DIM, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[2m", "\x1b[0m"


class RequestLines:
    """`observe` writes the lines of a batch at once. `build` makes one of them."""

    def __init__(
        self, build: Callable[[RequestReport], bytes], write: Callable[[bytes], None]
    ) -> None:
        self._build = build
        self._write = write

    def observe(self, reports: Sequence[RequestReport]) -> None:
        self._write(b"".join(map(self._build, reports)))


def are_wanted() -> bool:
    """Whether LOG_LEVEL asks for lines of requests."""
    return log.isEnabledFor(logging.INFO)


def choose_form(format: str) -> Callable[[RequestReport], bytes]:
    """JSON or text, which is short and coloured where a person looks on."""
    if format == "json":
        return build_json_line
    if sys.stderr.isatty():
        return build_plain_terminal_line if os.environ.get("NO_COLOR") else build_terminal_line
    return build_text_line


def build_json_line(report: RequestReport) -> bytes:
    """All fields are always there, null where there is nothing to say."""
    caller, record, error = report.caller, report.record, report.error
    fields = {
        "time": report.ended_at,
        "level": "INFO",
        "logger": log.name,
        "process": os.getpid(),
        "message": "request",
        "request_id": report.identity.id if report.identity else None,
        "generation_id": report.generation_id,
        "account_id": caller.account_id if caller else None,
        "workspace_id": caller.workspace_id if caller else None,
        "workspace": (caller.workspace_slug or None) if caller else None,
        "key": _find_key(report),
        "format": report.format,
        "streamed": report.streamed,
        "model": report.requested_model,
        "provider": _find_provider(report),
        "attempts": len(report.attempts),
        "route": _write_route(report) or None,
        "status": report.status,
        "error_type": error.error_type if error else None,
        "reason": error.reason if error else None,
        "first_token_ms": _measure_first_token(report),
        "duration_ms": report.duration_ms,
        "tokens_prompt": record["tokens_prompt"] if record else None,
        "tokens_completion": record["tokens_completion"] if record else None,
        "charge_usd": usd(record["charge_nano"]) if record else None,
        "is_repeat": report.is_repeat,
    }
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def build_text_line(report: RequestReport) -> bytes:
    caller, record = report.caller, report.record
    # As `logging` has it; three times as fast as `strftime`.
    moment = report.ended_at.isoformat(" ", "milliseconds")[:23].replace(".", ",")
    parts = [f"{report.status} {_escape(report.requested_model) or '-'}"]
    if report.error:
        parts.append(report.error.reason or report.error.error_type)
    if report.is_repeat:
        parts.append("repeated")
    if route := _write_route(report):
        parts.append(route)
    first_token_ms = _measure_first_token(report)
    first = "" if first_token_ms is None else f" (first token {first_token_ms})"
    parts.append(f"{report.duration_ms} ms{first}")
    if record:
        parts.append(f"{record['tokens_prompt']} + {record['tokens_completion']} tokens")
        parts.append(f"${format_usd(record['charge_nano'])}")
    parts.append(f"key {_find_key(report) or '-'}")
    if caller and caller.workspace_slug:
        parts.append(f"workspace {caller.workspace_slug}")
    parts.append(report.format)
    ids = (report.generation_id, report.identity.id if report.identity else None)
    parts += filter(None, ids)
    return f"{moment} INFO {log.name}: {', '.join(parts)}\n".encode("utf-8", "backslashreplace")


def build_terminal_line(report: RequestReport) -> bytes:
    """`small  Thrifty 503 → Steady 200  62 ms  $0.0000044`, with colours."""
    return _build_short_line(report, _colour)


def build_plain_terminal_line(report: RequestReport) -> bytes:
    return _build_short_line(report, lambda text, colour: text)


def _build_short_line(report: RequestReport, paint: Callable[[str, str], str]) -> bytes:
    model = _escape(report.requested_model).rpartition("/")[2] or "-"
    parts = [model, _write_route(report, paint)]
    if not report.attempts or report.attempts[-1].status != report.status:
        reason = f" {report.error.reason or report.error.error_type}" if report.error else ""
        repeated = " repeated" if report.is_repeat else ""
        parts.append(f"{_paint_status(report.status, paint)}{reason}{repeated}")
    parts.append(paint(f"{report.duration_ms} ms", _DIM))
    if report.record:
        parts.append(f"${format_usd(report.record['charge_nano'])}")
    return ("  ".join(filter(None, parts)) + "\n").encode("utf-8", "backslashreplace")


def _write_route(report: RequestReport, paint: Callable[[str, str], str] | None = None) -> str:
    """`Thrifty 503 → Steady 200`; "" where no provider was asked."""
    if not report.attempts:
        cached = _find_provider(report)
        return f"{cached} (cached)" if cached else ""
    return " → ".join(
        f"{attempt.endpoint.provider.name} "
        f"{_paint_status(attempt.status, paint) if paint else attempt.status}"
        for attempt in report.attempts
    )


def _paint_status(status: int, paint: Callable[[str, str], str]) -> str:
    colour = _GREEN if status < 400 else _YELLOW if status < 500 else _RED
    return paint(str(status), colour)


def _colour(text: str, colour: str) -> str:
    return f"{colour}{text}{_PLAIN}"


def _find_provider(report: RequestReport) -> str | None:
    """The provider that served the request; None for a failed one."""
    return report.record["provider_name"] if report.record and report.status == 200 else None


def _find_key(report: RequestReport) -> str | None:
    """The key's label, or how an unknown credential begins."""
    if report.caller:
        return report.caller.key_label or None
    return f"{_escape(report.key_prefix)}..." if report.key_prefix else None


def _measure_first_token(report: RequestReport) -> int | None:
    """Milliseconds from the request's start."""
    firsts = (each.first_token for each in report.attempts if each.failure is None)
    first = next((moment for moment in firsts if moment is not None), None)
    return None if first is None else max(0, round((first - report.started) * 1000))


def _escape(text: str) -> str:
    """A caller's words, without what would end the line or move the cursor."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
