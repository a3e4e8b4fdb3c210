"""Everything a benchmark stands on, private to it and gone with it: stores, upstreams, servers."""

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from routing.simulator.testing import SimulatedUpstream
from tests.load.accounting import WebProcesses
from tests.load.crossings import BY_WIRE
from tests.load.plan import CHUNKS_PER_S
from tests.load.upstreams import NginxUpstream, nginx_version
from tests.support import processes
from tests.support.gateways import seed_account
from tests.support.manage import PROJECT
from tests.support.postgres import PostgresCluster
from tests.support.running import clean_environment
from tests.support.server import GatewayServer
from tests.support.valkey import ValkeyServer

DATABASE = "gateway_bench"
WEB_WORKERS = 2
# Enough for hours of load at the prices below.
CREDITS_USD = "1000000"
# Per token, of both models.
PROMPT_NANO, COMPLETION_NANO = 1_000, 2_000
LIVELY_WORDS_PER_S = 200
# What decisions are read from, and what calls of tools need.
_MORE = {"judging": ("logprobs", "top_logprobs"), "tools": ("tools", "tool_choice")}
_START_S = 20.0
_STOP_S = 12.0
_TAIL_CHARS = 3000


class CeilingServer:
    """gunicorn with the gateway's own settings round `tests/load/ceiling.py`."""

    def __init__(self, *, env: Mapping[str, str], folder: Path) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.root_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        descriptor = self._listener.fileno()
        self._process = processes.spawn(
            [Path(sys.executable).parent / "gunicorn", "-c", "tests/load/ceiling_gunicorn.py"],
            log=folder / "ceiling.log",
            env={**env, "GATEWAY_BIND": f"fd://{descriptor}"},
            cwd=PROJECT,
            pass_fds=[descriptor],
        )
        self.web = WebProcesses(self._process.pid)

    def wait_ready(self, log: Path) -> None:
        """Until every worker is there; requests wait in the socket's queue while one loads."""

        def there() -> bool:
            assert self._process.poll() is None, log.read_text(errors="replace")
            return len(self.web.worker_rss_bytes()) == WEB_WORKERS

        processes.eventually(there, within_s=_START_S, what="the ceiling's start", log=log)

    def stop(self) -> None:
        processes.stop(self._process, grace_s=_STOP_S)
        self._listener.close()


class Stand:
    """Start with `with Stand() as stand:`. All addresses are on 127.0.0.1 or Unix sockets.

    `upstream` and `warnings` say what answers and what was left out. `key` is an inference key.
    Without `with_ceiling` there is no `ceiling`.
    """

    def __init__(self, *, with_ceiling: bool = True) -> None:
        self._with_ceiling = with_ceiling
        self.warnings: list[str] = []
        self._ends = ExitStack()

    def warn(self, warning: str) -> None:
        """Say it now, and keep it for the document."""
        self.warnings.append(warning)
        sys.stderr.write(f"bench: warning: {warning}\n")

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception):
            self._tell_logs()
        self._ends.close()

    def _tell_logs(self) -> None:
        """The last of what the servers logged, because the folder is about to go."""
        for log in sorted(self.folder.glob("*.log")):
            if tail := log.read_text(errors="replace")[-_TAIL_CHARS:]:
                sys.stderr.write(f"--- {log.name}\n{tail}\n")

    def _start(self) -> None:
        # Short, because a Unix socket's path has about 100 characters at most.
        self.folder = Path(tempfile.mkdtemp(prefix="gateway-bench-"))
        self.folder.chmod(0o755)
        self._ends.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.postgres = PostgresCluster(self.folder / "postgres", durable=True)
        self._ends.callback(self.postgres.stop)
        self.postgres.start()
        self.postgres.create(DATABASE)
        self._valkey = ValkeyServer(self.folder)
        self._ends.callback(self._valkey.stop)
        self._valkey.start()
        self.simulator = self._ends.enter_context(
            SimulatedUpstream("--seed", "7", "--parent-pid", str(os.getpid()))
        )
        self.upstream, self.upstream_url = self._whole_upstream()
        self._start_gateway()
        if self._with_ceiling:
            self._start_ceiling()

    def pace_streams(self) -> None:
        """From now on streams come as slowly as the benches want them, those of `lively` with the
        first word at once."""
        paced = {"first_token_s": 0.05, "tokens_per_s": CHUNKS_PER_S}
        self.simulator.control("PUT", "/_persona/paced", paced)
        self.simulator.control("PUT", "/_persona/lively", {"tokens_per_s": LIVELY_WORDS_PER_S})

    def _whole_upstream(self) -> tuple[str, str]:
        version = nginx_version()
        if version:
            nginx = NginxUpstream(self.folder / "nginx")
            self._ends.callback(nginx.stop)
            if nginx.start():
                return version, nginx.url
        why = "nginx does not start" if version else "nginx is not installed"
        self.warn(f"{why}: the simulated upstream, which costs more CPU, answers")
        return "simulated upstream", f"{self.simulator.url}/default"

    def _environment(self) -> dict[str, str]:
        return clean_environment() | {
            "GATEWAY_HOME": str(self.folder / "home"),
            "DATABASE_URL": self.postgres.url(DATABASE),
            "REDIS_URL": self._valkey.url,
            "WEB_CONCURRENCY": str(WEB_WORKERS),
        }

    def _start_gateway(self) -> None:
        env = self._environment() | {"DJANGO_SETTINGS_MODULE": "gateway.settings"}
        self.gateway = GatewayServer(env=env, folder=self.folder, worker=True)
        self._ends.callback(self.gateway.stop)
        migrated = self.gateway.run_command("migrate", "--verbosity", "0")
        assert migrated.status == 0, migrated
        catalogue = self.folder / "bench.yaml"
        catalogue.write_text(yaml.safe_dump(self._catalogue(), sort_keys=False))
        self.gateway.manage("load_catalogue", str(catalogue))
        self.key = seed_account(self.gateway, credits_usd=CREDITS_USD).api_key
        self.gateway.start()
        self.web = WebProcesses(self.gateway.pid)

    def second_gateway(self, settings: Mapping[str, str]) -> GatewayServer:
        """Another one on the same stores with settings of its own, not started yet."""
        home = {"GATEWAY_HOME": str(self.folder / "home"), **settings}
        env = self._environment() | {"DJANGO_SETTINGS_MODULE": "gateway.settings"} | home
        folder = self.folder / "second"
        folder.mkdir(exist_ok=True)
        return GatewayServer(env=env, folder=folder)

    def _start_ceiling(self) -> None:
        env = self._environment() | {
            "DJANGO_SETTINGS_MODULE": "tests.load.ceiling_settings",
            "CEILING_WHOLE": self.upstream_bases()["whole"],
            "CEILING_STREAM": self.upstream_bases()["paced"],
        }
        self.ceiling = CeilingServer(env=env, folder=self.folder)
        self._ends.callback(self.ceiling.stop)
        self.ceiling.wait_ready(self.folder / "ceiling.log")

    def upstream_bases(self) -> dict[str, str]:
        """Base URLs by provider: `whole` answers at once, `paced` in streams."""
        return {"whole": f"{self.upstream_url}/v1", "paced": f"{self.simulator.url}/paced/v1"}

    def _catalogue(self) -> dict[str, Any]:
        providers = [
            _provider(name, "openai", base) for name, base in self.upstream_bases().items()
        ]
        providers.append(_provider("tools", "openai", f"{self.simulator.url}/tools/v1"))
        for persona in ("paced", "lively"):
            base = f"{self.simulator.url}/{persona}/v1"
            providers += [_provider(f"{persona}-{wire}", wire, base) for wire in BY_WIRE]
        providers.append(_provider("judging", "openai", f"{self.simulator.url}/judging/v1"))
        return {"providers": providers, "models": [_model(each["slug"]) for each in providers]}


def _provider(slug: str, kind: str, base_url: str) -> dict[str, Any]:
    return {
        "slug": slug,
        "name": slug.title(),
        "kind": kind,
        "base_url": base_url,
        "credential": "upstream-credential",
        "collects_data": False,
        "zdr": True,
        "supports_cancellation": True,
    }


def _model(provider: str) -> dict[str, Any]:
    return {
        "id": f"bench/{provider}",
        "name": f"Bench {provider}",
        "created": 1_767_225_600,
        "context_length": 128_000,
        "endpoints": [
            {
                "provider": provider,
                "upstream_model": f"bench-{provider}",
                "max_completion_tokens": 16_384,
                "pricing": {
                    "prompt": f"{PROMPT_NANO / 1e9:.9f}",
                    "completion": f"{COMPLETION_NANO / 1e9:.9f}",
                },
                "supported_parameters": ["temperature", "max_tokens", *_MORE.get(provider, ())],
            }
        ],
    }
