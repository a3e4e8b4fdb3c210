"""The processes of one run and how each is started."""

import os
import signal
import sys
from pathlib import Path

from gateway.env import SUPERVISED, SUPERVISOR_PID
from gateway.run.child import Child
from gateway.run.plan import Plan
from gateway.run.simulated import Simulated

_BIN = Path(sys.executable).parent
HINTS_BYTES_MAX = "256mb"
CONTROL_SLOTS = 8
# Whoever runs this as root, in a container say, has chosen to: six lines a start say too much.
_HUSH = "ignore:You're running the worker with superuser privileges"


def valkey(plan: Plan) -> Child:
    """The embedded hint store and broker: on a Unix socket only, nothing kept on disk."""
    assert plan.valkey_binary is not None
    folder = plan.valkey_socket.parent
    options = f"--port 0 --appendonly no --loglevel warning --maxmemory {HINTS_BYTES_MAX}".split()
    places = ["--unixsocket", plan.valkey_socket, "--unixsocketperm", "700", "--dir", folder]
    log = ["--logfile", plan.run / "valkey.log"]
    command = [plan.valkey_binary, *options, *places, *log, "--save", ""]
    return Child("valkey", lambda: command, plan.environment())


def simulator(plan: Plan, simulated: Simulated) -> Child:
    return Child("simulator", simulated.command, plan.environment(), quiet=True)


def prepare(plan: Plan) -> Child:
    """Migrations, the demo account and the demo catalogue, in one short-lived process."""
    command = [sys.executable, "-m", "gateway.run.prepare"]
    return Child("prepare", lambda: command, plan.environment(), pipes=True)


def web(plan: Plan, listener_fd: int) -> Child:
    return Child(
        "web",
        lambda: [_BIN / "gunicorn", "-c", "gateway/gunicorn.conf.py"],
        plan.environment() | {"GATEWAY_BIND": f"fd://{listener_fd}"},
        pass_fds=(listener_fd,),
    )


def worker(plan: Plan) -> Child:
    """What beat asks for, and nobody waits for."""
    return _worker(plan, "worker", "celery", "--concurrency", "1")


def intern_jobs(plan: Plan) -> Child:
    """Provisioning and taking down interns: minutes, with a slow runtime."""
    return _worker(plan, "interns", "interns", "--concurrency", str(plan.intern_jobs))


def intern_control(plan: Plan) -> Child:
    """What must not wait for those: suspending, and looking after what runs. It mostly waits."""
    slots = str(CONTROL_SLOTS)
    return _worker(
        plan, "intern-control", "intern-control", "--pool", "threads", "--concurrency", slots
    )


def _worker(plan: Plan, name: str, queue: str, *slots: str) -> Child:
    options = "worker --without-mingle --without-gossip --loglevel WARNING"
    place = ["--hostname", f"{name}@%h", "--queues", queue, *slots]
    command = [_BIN / "celery", "--quiet", "-A", "gateway", *options.split(), *place]
    marks = {"PYTHONWARNINGS": _HUSH, SUPERVISED: "1", SUPERVISOR_PID: str(os.getpid())}
    # SIGQUIT is Celery's cold shutdown: with the supervisor gone there is no time to finish tasks.
    return Child(name, lambda: command, plan.environment() | marks, death_signal=signal.SIGQUIT)


def suspend_interns(plan: Plan) -> Child:
    """`manage.py suspend_interns --all --here`, when the run ends."""
    command = [sys.executable, "manage.py", "suspend_interns", "--all", "--here"]
    return Child("suspend_interns", lambda: command, plan.environment())


def beat(plan: Plan) -> Child:
    options = ["--schedule", plan.run / "beat-schedule", "--pidfile=", "--loglevel", "WARNING"]
    command = [_BIN / "celery", "--quiet", "-A", "gateway", "beat", *options]
    return Child("beat", lambda: command, plan.environment())


def add_provider(plan: Plan, name: str) -> Child:
    """`manage.py add_provider NAME`, which reads the key from the environment."""
    # Whoever only starts the gateway asked for no calls.
    options = ["--no-input", "--no-probe"]
    command = [sys.executable, "manage.py", "add_provider", name, *options]
    return Child(f"add_provider {name}", lambda: command, plan.environment())
