"""gunicorn's settings for web processes."""

from gevent import monkey

# Before any other import: without it every request fails under --preload.
monkey.patch_all()

from gateway.server import locks

# Nor may Django be there yet.
locks.make_native()

import logging
import os
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

from gateway import settings
from gateway.logs.setup import configure
from gateway.metrics.files import begin_anew, sweep_dead_processes
from gateway.server import masters
from gateway.server.worker import forget_worker, retire_workers

if TYPE_CHECKING:
    from gunicorn.arbiter import Arbiter

    from gateway.server.worker import GatewayWorker

wsgi_app = "gateway.wsgi:application"
worker_class = "gateway.server.worker.GatewayWorker"
workers = settings.WEB_CONCURRENCY
worker_connections = 4 * settings.ROUTER_MAX_CONCURRENCY
ports = [settings.PORT, *([settings.INTERN_PORT] if settings.INTERN_PORT else [])]
bind = [f"{settings.HOST}:{port}" for port in ports]
if "GATEWAY_BIND" in os.environ:
    bind = os.environ["GATEWAY_BIND"].split(",")
keepalive = 75
timeout = 120
graceful_timeout = 8
# gunicorn's own is 0, which would undo the settings'.
umask = 0o077
# gunicorn would believe X-Forwarded-Proto of loopback, or of FORWARDED_ALLOW_IPS, before we look
# at TRUSTED_PROXIES. It believes peers on Unix sockets all the same: they have no address.
forwarded_allow_ips = ""
# No header of a caller's may move the paths we serve, not even through a proxy on this host.
forwarder_headers = ""
limit_request_line = 4094
limit_request_fields = 100
limit_request_field_size = 8190
control_socket_disable = True
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108, PTH112 - Heartbeats must not touch a disk; gunicorn makes the file private.
accesslog = None
# Its own lines go where all others do.
configure()
logger_class = "gateway.server.worker.Logger"
loglevel = settings.LOG_LEVEL


log = logging.getLogger("gateway.web")


def on_starting(server: "Arbiter") -> None:
    """Before the master listens."""
    begin_anew()


def when_ready(server: "Arbiter") -> None:
    """The master listens and is about to fork."""
    # Only who waits for this master reads it: a full disk stops no start.
    with suppress(OSError):
        masters.begin_master(settings.WEB_CONCURRENCY)
    log.info("Web %s started, %d workers", settings.GATEWAY_VERSION, settings.WEB_CONCURRENCY)


def on_exit(server: "Arbiter") -> None:
    masters.end_master()
    log.info("Web stopped")


def post_worker_init(worker: "GatewayWorker") -> None:
    """The application is loaded and forked: begin what runs beside requests."""
    import_module("routing.process").start()
    log.info("Web worker %d serves", worker.pid)


def worker_exit(server: "Arbiter", worker: "GatewayWorker") -> None:
    """Every request is done: let nothing queued be lost."""
    import_module("routing.process").stop()


def on_reload(server: "Arbiter") -> None:
    """SIGHUP: new workers take over while the old ones finish."""
    log.info("Reload: %d web workers are replaced", len(server.WORKERS))
    retire_workers(server)


def child_exit(server: "Arbiter", worker: "GatewayWorker") -> None:
    """In the master, once a worker's process has ended. gunicorn says so itself where it failed."""
    log.info("Web worker %d ended", worker.pid)
    forget_worker(server, worker)
    masters.forget_worker(int(worker.pid))
    sweep_dead_processes(at_once=True)
