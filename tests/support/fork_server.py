"""Processes that begin with the libraries imported, which is 40 % of a gateway's start.

A fork server is `python -m tests.support.fork_server KIND FD`, one of a kind for a pytest process.
It imports no module of ours: those read their settings when they are imported.
"""

import atexit
import fcntl
import itertools
import json
import os
import posix
import select
import signal
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


class ServerGone(ConnectionError):
    """The fork server has ended, and with it all that it began."""


class _ForkServer:
    def __init__(self, kind: str) -> None:
        self._lock = Lock()
        self._numbers = itertools.count()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, "-m", __name__, kind, str(theirs.fileno())]
            # It ends with our end of the socket, whichever of our threads began it. A terminal's
            # Ctrl-C is not for it: fixtures still stop what it began.
            self._process = subprocess.Popen(
                words, cwd=PROJECT, pass_fds=[theirs.fileno()], start_new_session=True
            )
        atexit.register(self.close)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        self._control.close()
        self._process.wait(60)

    def ask(self, order: dict[str, Any], fds: Sequence[int] = ()) -> Any:
        """Its answer. Raises `ServerGone`, and `OSError` with what went wrong there."""
        with self._lock:
            number = next(self._numbers)
            try:
                socket.send_fds(self._control, [json.dumps([number, order]).encode()], list(fds))
                # A test that was interrupted left its answer behind.
                while (reply := json.loads(self._control.recv(1_000) or b"null")) is not None:
                    if reply["number"] == number:
                        break
            except OSError as error:
                raise ServerGone(str(error)) from error
        if reply is None:
            raise ServerGone("it closed its socket")
        if reply["error"]:
            raise OSError(reply["error"])
        return reply["answer"]


class ForkedProcess:
    """What tests use of `subprocess.Popen`, for a child of a fork server."""

    def __init__(self, server: _ForkServer, pid: int) -> None:
        self._server, self.pid = server, pid
        self._lock = Lock()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None:
                try:
                    self.returncode = self._server.ask({"wait": self.pid})
                except ServerGone:
                    self.returncode = -signal.SIGKILL
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
    server = _find_server("web" if main.startswith("gunicorn") else "plain")
    order = {"main": main, "argv": list(map(str, argv)), "env": dict(env), "fds": list(fds)}
    return ForkedProcess(server, server.ask(order, list(fds.values())))


def can_fork(env: Mapping[str, str], project: Path) -> bool:
    """Whether it may be a copy of this interpreter, which runs this checkout."""
    is_wanted = os.environ.get("GATEWAY_TEST_FORKS") != "0"
    is_alike = _read_python_settings(env) == _read_python_settings(os.environ)
    return is_wanted and is_alike and project == PROJECT and sys.platform == "linux"


def _read_python_settings(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith("PYTHON")}


# By kind and by process: what a fork of ours asked would be answered to both.
_servers: dict[tuple[str, int], _ForkServer] = {}


def _find_server(kind: str) -> _ForkServer:
    found = _servers.get((kind, os.getpid()))
    if found is None or found.has_ended:
        found = _servers[kind, os.getpid()] = _ForkServer(kind)
    return found


def _serve(control: Any) -> dict[str, Any]:
    """Fork as asked; only the children return, with what they are to do."""
    prepare = dies_with_parent()
    while True:
        body, fds, _, _ = socket.recv_fds(control, 1 << 20, 8)
        if not body:
            os._exit(0)
        number, order = json.loads(body)
        answer, error = None, ""
        try:
            if "wait" in order:
                pid, status = posix.waitpid(order["wait"], os.WNOHANG)
                answer = os.waitstatus_to_exitcode(status) if pid else None
            elif not (answer := _fork_leader()):
                prepare()
                control.close()
                _place_descriptors(fds, order["fds"])
                return dict(order)
        except OSError as failed:
            error = str(failed)
        for each in fds:
            os.close(each)
        reply = {"number": number, "answer": answer, "error": error}
        control.send(json.dumps(reply).encode())


def _fork_leader() -> int:
    """A child that leads a session, and so a group that can be killed, before its parent goes on.
    Returns 0 in the child."""
    reader, writer = os.pipe()
    pid = posix.fork()  # gevent's own would begin its loop in this process.
    if not pid:
        os.setsid()
    os.close(writer)
    if pid:
        os.read(reader, 1)
    os.close(reader)
    return pid


def _place_descriptors(fds: Sequence[int], wanted: Sequence[int]) -> None:
    # Out of the way first: what came may have a number that is wanted.
    high = [fcntl.fcntl(each, fcntl.F_DUPFD, 500) for each in fds]
    for each, number in zip(high, wanted, strict=True):
        os.dup2(each, number)
    for each in {*fds, *high} - set(wanted):
        os.close(each)


def _become(order: dict[str, Any]) -> Any:
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
