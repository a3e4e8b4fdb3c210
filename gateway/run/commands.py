"""The command of each process, which the Procfile spells out for whoever starts them otherwise."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.home import PROJECT

_BIN = Path(sys.executable).parent
_CONTROL_SLOTS = 8
_DELIVERY_SLOTS = 8
_EVENT_SLOTS = 8


@dataclass(frozen=True)
class Process:
    """One that can be started alone. `build` makes its command from the settings; it raises
    `SettingError`."""

    help: str
    build: Callable[[], list[str]]


def web() -> list[str]:
    return [str(_BIN / "gunicorn"), "-c", str(PROJECT / "gateway" / "gunicorn.conf.py")]


def worker() -> list[str]:
    """What beat asks for, and nobody waits for."""
    return _worker("worker", "celery", "--concurrency", "1")


def intern_jobs() -> list[str]:
    """Provisioning and taking down interns: minutes, with a slow runtime."""
    from gateway import settings

    return _worker("interns", "interns", "--concurrency", str(settings.INTERN_JOBS))


def intern_control() -> list[str]:
    """What must not wait for those: suspending, and looking after what runs. It mostly waits."""
    return _threads("intern-control", _CONTROL_SLOTS)


def destinations() -> list[str]:
    """Deliveries to receivers of other people's, which may answer late or never. It mostly
    waits."""
    return _threads("destinations", _DELIVERY_SLOTS)


def events() -> list[str]:
    """Watching for what leads and operators should hear of, and telling them. No long task keeps
    it."""
    return _threads("events", _EVENT_SLOTS)


def beat() -> list[str]:
    from gateway import settings

    schedule = settings.GATEWAY_HOME / "run" / "beat-schedule"
    options = ["--schedule", str(schedule), "--pidfile=", "--loglevel", "WARNING"]
    return [*_celery(), "beat", *options]


def migrate() -> list[str]:
    return [sys.executable, "-m", "gateway", "manage", "migrate", "--noinput"]


def _threads(name: str, slots: int) -> list[str]:
    return _worker(name, name, "--pool", "threads", "--concurrency", str(slots))


def _worker(name: str, queue: str, *slots: str) -> list[str]:
    place = ["--hostname", f"{name}@%h", "--queues", queue, *slots]
    quiet = ["--without-mingle", "--without-gossip", "--loglevel", "WARNING"]
    return [*_celery(), "worker", *place, *quiet]


def _celery() -> list[str]:
    return [str(_BIN / "celery"), "--quiet", "-A", "gateway"]


PROCESSES: Final = {
    "release": Process("bring the database's tables to this version, then end", migrate),
    "web": Process("serve requests and pages", web),
    "worker": Process("do what beat asks for", worker),
    "interns": Process("provision interns and take them down", intern_jobs),
    "intern-control": Process("suspend interns and look after those that run", intern_control),
    "events": Process("watch for events and send them to channels", events),
    "destinations": Process("send traces of requests to their destinations", destinations),
    "beat": Process("tell the workers what is due; once in all", beat),
}
