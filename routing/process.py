"""What a web process starts once it has been forked, and ends before it goes."""

from routing.catalogue.snapshot import catalogue
from routing.metering.writer import ledger


def start() -> None:
    """Follow the catalogue, and sweep expired holds even before the first request."""
    catalogue.start_polling()
    ledger.start()


def stop() -> None:
    """Commit what is queued and take back this process's reports."""
    ledger.stop()
    catalogue.stop_polling()
