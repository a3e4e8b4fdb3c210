"""Processes that begin with the libraries imported, which is 40 % of a gateway's start.

A fork server is `python -m tests.support.fork_server KIND FD`, one of a kind for a pytest process.
It imports no module of ours: those read their settings when they are imported.
"""

import atexit
import fcntl
import functools
import json
import os
import posix
import select
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from tests.support.processes import PROJECT, dies_with_parent

# What web and commands import anyhow, as far as it asks for no settings.
_LIBRARIES = """
django.contrib.admin.options django.contrib.postgres.fields django.core.handlers.wsgi httptools
django.core.mail.backends.smtp django.db.backends.postgresql.base django.db.migrations.executor
django.template.loader_tags django.views.debug botocore.auth cryptography.fernet dateutil.parser
cryptography.x509.verification fido2.server jwt prometheus_client psutil psycopg_pool psycopg.rows
opentelemetry.proto.collector.trace.v1.trace_service_pb2 pydantic.types redis.asyncio redis.cluster
"""
# gunicorn's must be patched before all else is imported; Celery and commands may not be.
_KINDS = {"web": "gunicorn.app.wsgiapp gunicorn.workers.ggevent", "plain": "celery.app.task"}


class _ForkServer:
    def __init__(self, kind: str) -> None:
        self._lock = Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, "-m", __name__, kind, str(theirs.fileno())]
            # It ends with our end of the socket, whichever of our threads began it.
            self._process = subprocess.Popen(words, cwd=PROJECT, pass_fds=[theirs.fileno()])
        atexit.register(self.close)

    def close(self) -> None:
        self._control.close()
        self._process.wait(60)

    def ask(self, order: dict[str, Any], fds: Sequence[int] = ()) -> Any:
        with self._lock:
            socket.send_fds(self._control, [json.dumps(order).encode()], list(fds))
            return json.loads(self._control.recv(100))


class ForkedProcess:
    """What tests use of `subprocess.Popen`, for a child of a fork server."""

    def __init__(self, server: _ForkServer, pid: int) -> None:
        self._server, self.pid = server, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.ask({"wait": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.poll() is None:
            ended, poll = os.pidfd_open(self.pid), select.poll()
            poll.register(ended, select.POLLIN)
            poll.poll(None if timeout is None else timeout * 1_000)
            os.close(ended)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return status

    def send_signal(self, sig: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)


def fork(
    main: str, argv: Sequence[object], *, env: Mapping[str, str], fds: Mapping[int, int]
) -> ForkedProcess:
    """Call `main`, a `package.module:function`, in a session of its own; `fds` are its descriptors
    and of which of ours they are copies."""
    server = _server_of("web" if main.startswith("gunicorn") else "plain", os.getpid())
    order = {"main": main, "argv": list(map(str, argv)), "env": dict(env), "fds": list(fds)}
    return ForkedProcess(server, server.ask(order, list(fds.values())))


def can_fork(env: Mapping[str, str], project: Path) -> bool:
    """Whether it may be a copy of this interpreter, which runs this checkout."""
    is_ours = project == PROJECT and env.get("PYTHONPATH") == os.environ.get("PYTHONPATH")
    return is_ours and sys.platform == "linux"


@functools.cache
def _server_of(kind: str, pid: int) -> _ForkServer:
    """That of this process: what a fork of ours asked would be answered to both."""
    return _ForkServer(kind)


def _serve(control: Any) -> dict[str, Any]:
    """Fork as asked; only the children return, with what they are to do."""
    prepare = dies_with_parent()
    while True:
        body, fds, _, _ = socket.recv_fds(control, 1 << 20, 8)
        if not body:
            os._exit(0)
        order: dict[str, Any] = json.loads(body)
        if "wait" in order:
            pid, status = posix.waitpid(order["wait"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif not (answer := posix.fork()):  # gevent's own would begin its loop in this process.
            prepare()
            control.close()
            # Out of the way first: what came may have a number that is wanted.
            high = [fcntl.fcntl(each, fcntl.F_DUPFD, 500) for each in fds]
            for each, wanted in zip(high, order["fds"], strict=True):
                os.dup2(each, wanted)
            for each in {*fds, *high} - set(order["fds"]):
                os.close(each)
            return order
        for each in fds:
            os.close(each)
        control.send(json.dumps(answer).encode())


def _become(order: dict[str, Any]) -> Any:
    os.setsid()
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = order["argv"]
    module, _, function = order["main"].partition(":")
    return getattr(import_module(module), function)()


if __name__ == "__main__":
    kind, is_web = sys.argv[1], sys.argv[1] == "web"
    if is_web:
        import_module("gevent.monkey").patch_all()
        # The one module of ours, which is for before Django is imported and has no settings.
        import_module("gateway.server.locks").make_native()
    for name in f"{_KINDS[kind]} {_LIBRARIES}".split():
        import_module(name)
    if is_web:
        # A library's queue begins the loop, whose descriptor no child may share.
        import_module("gevent").get_hub().destroy(destroy_loop=True)
    # Not a class of gevent's, which would wait in its loop.
    sys.exit(_become(_serve(import_module("_socket").socket(fileno=int(sys.argv[2])))))
