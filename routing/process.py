"""What a web process starts once it has been forked, and ends before it goes."""

from functools import partial
from typing import Final

from django.conf import settings

from accounts.authentication import log as uses_log
from accounts.authentication import uses
from gateway.limits.concurrency import concurrency_limiter
from gateway.limits.limits import rate_limiter
from gateway.logs.stderr import write_lines
from gateway.tracing.process import get_sender, stop_sender
from routing.catalogue.snapshot import catalogue
from routing.destinations.broadcaster import broadcaster
from routing.history.content_writer import content_writer
from routing.ledger.writer import ledger
from routing.monitoring import process as monitoring
from routing.reports.failed_requests import FailureWriter
from routing.reports.report import publisher
from routing.reports.request_lines import RequestLines, are_wanted, choose_form
from routing.reports.spans import SpanWriter
from routing.statistics import observation, peer_sync
from routing.statistics.periodic import PeriodicWork, run_together
from routing.tools.web.search import load_search_client

# gunicorn's master kills at its graceful_timeout of 8 s, and calls have had 6 of them by now: these
# are two seconds in all. What is not booked in its time is logged while this process still lives.
_LEDGER_STOP_S = 1.1
_REPORTS_STOP_S = 0.2
_RECORDS_STOP_S = 0.4
_METRICS_STOP_S = 0.1
_TRACES_STOP_S = 0.2

_KEY_USES_EVERY_S = 5.0

failures: Final = FailureWriter()
key_uses: Final = PeriodicWork("key uses", uses.write, every_s=_KEY_USES_EVERY_S, log=uses_log)


def start() -> None:
    """Follow the catalogue, sweep expired holds even before the first request, and learn."""
    catalogue.start_polling()
    ledger.start()
    observation.start()
    peer_sync.start()
    key_uses.start()
    if are_wanted():
        lines = RequestLines(choose_form(settings.LOG_FORMAT), write_lines)
        publisher.add_observer("log lines", lines.observe)
    publisher.add_observer("destinations", broadcaster.observe)
    if (sender := get_sender()) is not None:
        publisher.add_observer("traces", SpanWriter(sender.add).write)
    publisher.add_observer("failed requests", failures.observe)
    failures.start()
    monitoring.start(failures)
    publisher.start()
    broadcaster.start()
    load_search_client()


def stop() -> None:
    """Commit what is queued and take back this process's reports."""
    ledger.stop(_LEDGER_STOP_S)
    # What observers get now they write below.
    publisher.stop(_REPORTS_STOP_S)
    run_together(
        partial(failures.stop, _RECORDS_STOP_S),
        partial(content_writer.stop, _RECORDS_STOP_S),
        partial(key_uses.finish, within_s=_RECORDS_STOP_S),
        partial(broadcaster.stop, _RECORDS_STOP_S),
        catalogue.stop_polling,
        _leave_peers,
        within_s=_RECORDS_STOP_S,
    )
    monitoring.stop(_METRICS_STOP_S)
    # Last, because spans may be lost.
    stop_sender(_TRACES_STOP_S)


def _leave_peers() -> None:
    observation.stop()
    rate_limiter().close()
    concurrency_limiter().close()
    peer_sync.stop()
