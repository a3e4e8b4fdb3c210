"""Starts the processes of a run, keeps them alive and takes them down together."""

import logging
import shutil
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from gateway import env
from gateway.run import processes, ready
from gateway.run.child import DEATHS_MAX, Child, adopt_orphans, end_orphans, reap_orphans
from gateway.run.plan import ODD_SETTING, Plan
from gateway.run.processes import Preparation, Simulated
from gateway.run.signals import Parent, Signals
from gateway.sandbox import host_users

log = logging.getLogger("gateway.run")

TICK_S = 0.5
STARTING_TICK_S = 0.05
# Together below the ten seconds a stop may take. gunicorn needs its graceful_timeout of 8.
SERVING_GRACE_S = 8.5
STORES_GRACE_S = 0.7
ORPHANS_GRACE_S = 0.3


class RunFailed(Exception):
    """The run cannot go on; the text says why, unless a child has said it already."""

    def __init__(self, reason: str = "", *, status: int = 1) -> None:
        super().__init__(reason)
        self.status = status


class Supervisor:
    """One run, from the first process to the last. `listener` is the web processes' socket."""

    def __init__(self, plan: Plan, listener: socket.socket, parent: Parent) -> None:
        self._plan = plan
        self._parent = parent
        self._simulated = Simulated(plan.run / "simulator.json", plan.simulator_port)
        self._preparation = Preparation(plan)
        self._web = processes.web(plan, listener.fileno())
        self._stores = [processes.valkey(plan)] if plan.valkey_binary else []
        if plan.simulator:
            self._stores.append(processes.simulator(plan, self._simulated))
        names = ("worker", "events", "interns", "intern-control", "destinations")
        workers = [processes.worker(plan, name) for name in names]
        self._serving = [self._web, *workers, processes.beat(plan)]
        self._started: list[Child] = []
        self._errands: list[Child] = []
        self._is_ready = False

    def run(self) -> int:
        """Until a stop signal or the parent's leaving: 0; a failure: 1; an odd setting: 2."""
        status = 0
        # A killed run leaves its own.
        ready.ready_file(self._plan).unlink(missing_ok=True)
        ready.metrics_url_file(self._plan).unlink(missing_ok=True)
        adopt_orphans()
        with Signals() as signals:
            try:
                self._start(self._stores)
                self._preparation.start()
                while not (signals.stops or self._parent.is_gone()):
                    self._tick(signals)
            except RunFailed as failure:
                status = failure.status
                if str(failure):
                    log.error(str(failure))
            finally:
                # An odd setting is one line, and nothing has been started.
                has_started = status != ODD_SETTING
                if has_started:
                    log.info("stopping")
                self._stop(signals)
        if has_started:
            log.info("stopped")
        return status

    def _start(self, children: Sequence[Child]) -> None:
        for child in children:
            if child not in self._started:
                child.start()
                self._started.append(child)

    def _tick(self, signals: Signals) -> None:
        pace_s = TICK_S if self._is_ready else STARTING_TICK_S
        signals.wait(pace_s, self._preparation.readers())
        if signals.stops:
            return
        self._follow_preparation()
        self._restart_dead_children()
        if self._preparation.demo is not None and not self._is_ready:
            self._become_ready(self._preparation.demo)
        if self._errands and self._is_ready:
            # One after the other; what they have to say is on stderr.
            errand = self._errands[0]
            if errand.pid is None:
                errand.start()
            elif (status := errand.death()) is not None:
                self._errands.pop(0)
                if status:
                    log.warning("%s failed (%s)", errand.name, _describe_exit(status))

    def _follow_preparation(self) -> None:
        preparation = self._preparation
        preparation.listen()
        if self._simulated.url or not self._plan.simulator:
            preparation.send_simulator_url(self._simulated.url)
        if preparation.demo is not None:
            if self._web not in self._started:
                log.info("starting version %s in %s", self._plan.version, self._plan.home)
            self._start(self._serving)
        elif preparation.status == ODD_SETTING:
            raise RunFailed(status=ODD_SETTING)
        elif preparation.status is not None:
            raise RunFailed(f"preparing the stores failed ({_describe_exit(preparation.status)})")
        elif preparation.waiting_for and self._web not in self._started:
            log.warning("waiting for the database: %s", preparation.waiting_for)
            self._start([self._web])

    def _restart_dead_children(self) -> None:
        reap_orphans([c.pid for c in (self._preparation.child, *self._errands, *self._started)])
        now = time.monotonic()
        for child in self._started:
            status = child.death()
            if status is not None:
                delay_s = child.restarts.after_death(now)
                if delay_s is None:
                    times = f"{DEATHS_MAX} times within a minute"
                    raise RunFailed(f"{child.name} died {times}; giving up")
                how = _describe_exit(status)
                log.warning("%s died (%s); restarting in %g s", child.name, how, delay_s)
                child.restart_at = now + delay_s
            elif child.restart_at is not None and child.restart_at <= now:
                child.start()

    def _become_ready(self, demo: dict[str, Any]) -> None:
        if not (self._web.runs() and ready.answers(self._plan.root_url, "/readyz")):
            return
        self._is_ready = True
        facts = ready.facts(self._plan, demo, self._simulated.url)
        ready.announce(self._plan, facts)
        log.info("ready at %s", self._plan.root_url)
        show(ready.banner(facts))
        if host_users.is_root():
            log.info(_describe_root_rights())
        names = self._preparation.providers
        self._errands = [processes.add_provider(self._plan, name) for name in names]

    def _stop(self, signals: Signals) -> None:
        ready.ready_file(self._plan).unlink(missing_ok=True)
        signals.stops = 0
        serving = [c for c in self._started if c not in self._stores]
        last = []
        if serving and self._plan.has_interns():
            # Interns that run are suspended; they would end with the run in any case.
            last.append(processes.suspend_interns(self._plan))
            last[0].start()
        stopped = [self._preparation.child, *self._errands[:1], *serving]
        deadline = time.monotonic() + SERVING_GRACE_S
        _end_children(stopped, SERVING_GRACE_S, signals, ending_alone=last)
        _end_children([c for c in self._started if c in self._stores], STORES_GRACE_S, signals)
        end_orphans(max(ORPHANS_GRACE_S, deadline - time.monotonic()), signals.wait)
        if self._plan.valkey_socket.parent != self._plan.run:
            shutil.rmtree(self._plan.valkey_socket.parent, ignore_errors=True)


def _end_children(
    children: Sequence[Child], grace_s: float, signals: Signals, ending_alone: Sequence[Child] = ()
) -> None:
    """Ask children to stop; kill what is left past the grace, or at a further stop signal. Those
    `ending_alone` are not asked."""
    deadline = time.monotonic() + grace_s
    ask_at = [deadline - grace_s, deadline - grace_s / 2]
    while any(child.runs() for child in (*children, *ending_alone)):
        left_s = deadline - time.monotonic()
        if left_s <= 0 or signals.stops:
            break
        if ask_at and time.monotonic() >= ask_at[0]:
            # A second time too: seen was a Celery worker that had not noticed the first.
            del ask_at[0]
            for child in children:
                child.ask_to_stop()
        signals.wait(min(left_s, TICK_S))
    for child in (*children, *ending_alone):
        child.end()


def _describe_exit(status: int) -> str:
    """An exit status in words."""
    return signal.Signals(-status).name if status < 0 else f"exit {status}"


def _describe_root_rights() -> str:
    """Which rights a root gateway gives to what it does not trust, in one line."""
    users = env.sandbox_users()
    if why := host_users.explain_missing_users(users):
        return f"running as root; shells, interns and file readers are refused: {why}"
    if shutil.which("bwrap") is None:
        return "running as root; shells and interns are refused: bubblewrap is not installed"
    return (
        "running as root; shells, interns and file readers run as users without rights,"
        f" {users[0]} to {users[-1]} (SANDBOX_UIDS)"
    )


def show(text: str) -> None:
    """The banner, on stdout."""
    with suppress(OSError):
        sys.stdout.write(text)
        sys.stdout.flush()
