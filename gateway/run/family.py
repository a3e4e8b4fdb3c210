"""The processes of one run and how each is started."""

import signal
import sys
from pathlib import Path

from gateway.env import SUPERVISED
from gateway.run.child import Child
from gateway.run.plan import Plan
from gateway.run.simulated import Simulated

_BIN = Path(sys.executable).parent
HINTS_BYTES_MAX = "256mb"
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
    options = "worker --concurrency 1 --without-mingle --without-gossip --loglevel WARNING"
    command = [_BIN / "celery", "--quiet", "-A", "gateway", *options.split()]
    environment = plan.environment() | {"PYTHONWARNINGS": _HUSH, SUPERVISED: "1"}
    # SIGQUIT is Celery's cold shutdown: with the supervisor gone there is no time to finish tasks.
    return Child("worker", lambda: command, environment, death_signal=signal.SIGQUIT)


def beat(plan: Plan) -> Child:
    options = ["--schedule", plan.run / "beat-schedule", "--pidfile=", "--loglevel", "WARNING"]
    command = [_BIN / "celery", "--quiet", "-A", "gateway", "beat", *options]
    return Child("beat", lambda: command, plan.environment())


def add_provider(plan: Plan, name: str) -> Child:
    """`manage.py add_provider NAME`, which reads the key from the environment."""
    command = [sys.executable, "manage.py", "add_provider", name, "--no-input"]
    return Child(f"add_provider {name}", lambda: command, plan.environment())
