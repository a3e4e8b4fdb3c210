"""Examinations of settings, this machine's disk, the processes, the address from outside, and
backups."""

import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import ERROR, run_checks

from gateway.doctor.findings import Finding, Question, State
from gateway.health import find_worked_queues, is_beat_alive
from gateway.run.ready import answers

FREE_BYTES_MIN: Final = 1 << 30
FREE_SHARE_MIN: Final = 0.05
CERTIFICATE_DAYS_MIN: Final = 14
# Where the unit gateway-backup.service keeps them.
BACKUPS: Final = Path("/var/lib/gateway-backups")
_CONNECT_S: Final = 5.0
_DAY_S: Final = 86_400


def examine_settings(question: Question) -> Iterator[Finding]:
    checks = run_checks(include_deployment_checks=settings.PRODUCTION)
    found = [each for each in checks if not each.is_silenced()]
    for each in found:
        state: State = "problem" if each.level >= ERROR else "warning"
        yield Finding("settings", state, f"{each.msg} ({each.id})", each.hint or "")
    if not settings.PRODUCTION:
        advice = "Set GATEWAY_ENV=production, which insists on secrets and on secure cookies."
        yield Finding("settings", "warning", "these are settings for development", advice)
    elif not found:
        yield Finding("settings", "ok", "fit for production")


def examine_disk(question: Question) -> Iterator[Finding]:
    usage = shutil.disk_usage(settings.GATEWAY_HOME)
    text = f"{usage.free / 1e9:.1f} of {usage.total / 1e9:.1f} GB free in {settings.GATEWAY_HOME}"
    if usage.free < max(FREE_BYTES_MIN, FREE_SHARE_MIN * usage.total):
        yield Finding("disk", "problem", text, "Make room before interns and records stop.")
    else:
        yield Finding("disk", "ok", text)


def examine_processes(question: Question) -> Iterator[Finding]:
    for queue, is_worked in find_worked_queues().items():
        if is_worked is None:
            text = f"whether a worker reads {queue} cannot be told without Redis"
            yield Finding("workers", "unknown", text)
        elif is_worked:
            yield Finding("workers", "ok", f"a worker reads {queue}")
        else:
            # A gateway without interns is whole without theirs.
            state: State = "warning" if queue.startswith("intern") else "problem"
            process = "worker" if queue == "celery" else queue
            advice = f"Start the process {process}; see the Procfile."
            yield Finding("workers", state, f"nobody reads the queue {queue}", advice)
    is_alive = is_beat_alive()
    if is_alive is None:
        yield Finding("beat", "unknown", "whether beat runs cannot be told without Redis")
    elif is_alive:
        yield Finding("beat", "ok", "beat tells the workers what is due")
    else:
        advice = "Start the process beat, once in all."
        yield Finding("beat", "problem", "beat has sent nothing for half a minute", advice)


def examine_address(question: Question) -> Iterator[Finding]:
    """How callers see it, from here."""
    url = question.url or settings.PUBLIC_URL
    if not url:
        advice = "Say it with --url or PUBLIC_URL."
        yield Finding("address", "unknown", "no address from outside is known", advice)
        return
    parts = urlsplit(url)
    if parts.scheme == "https":
        yield _examine_certificate(parts.hostname or "", parts.port or 443)
    elif settings.PRODUCTION:
        advice = "Keys travel in the clear: put a proxy with TLS in front."
        yield Finding("tls", "warning", f"{url} is not https", advice)
    if answers(url.rstrip("/"), "/readyz"):
        yield Finding("address", "ok", f"{url} is ready")
    else:
        advice = f"Ask {url}/readyz, which says what is missing."
        yield Finding("address", "problem", f"{url} is not ready", advice)


def _examine_certificate(host: str, port: int) -> Finding:
    context = ssl.create_default_context()
    try:
        with (
            socket.create_connection((host, port), timeout=_CONNECT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            certificate = secure.getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        return Finding("tls", "problem", f"{host}: {error.verify_message}", "Renew it.")
    except OSError as error:
        return Finding("tls", "problem", f"{host}:{port} cannot be reached: {error}")
    ends_at = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    days = (ends_at - time.time()) / _DAY_S
    text = f"the certificate of {host} is good for {days:.0f} days"
    if days < CERTIFICATE_DAYS_MIN:
        return Finding("tls", "warning", text, "See why it was not renewed.")
    return Finding("tls", "ok", text)


def examine_backups(question: Question) -> Iterator[Finding]:
    folder = question.backups or BACKUPS
    advice = "See docs/how-to/production.md; name the folder with --backups."
    try:
        ages = [time.time() - each.stat().st_mtime for each in folder.iterdir() if each.is_file()]
    except PermissionError:
        yield Finding("backups", "unknown", f"this user may not read {folder}")
        return
    except FileNotFoundError:
        state: State = "warning" if question.backups is None else "problem"
        yield Finding("backups", state, f"there is no folder {folder}", advice)
        return
    if not ages:
        yield Finding("backups", "problem", f"{folder} is empty", advice)
        return
    hours = min(ages) / 3600
    text = f"the newest in {folder} is {hours:.1f} hours old"
    if hours > question.backup_hours:
        yield Finding("backups", "problem", text, "See why the timer did not make another.")
    else:
        yield Finding("backups", "ok", text)
