"""Everything a benchmark stands on, private to it and gone with it: stores, upstreams, servers."""

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any, Self

from routing.simulator.testing import SimulatedUpstream
from tests.faults import bench
from tests.load.accounting import ProcessTree
from tests.load.crossings import BY_WIRE
from tests.load.generators import Generator
from tests.load.plan import CHUNKS_PER_S
from tests.load.upstreams import nginx_version, start_nginx
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
PROMPT_NANO, COMPLETION_NANO = bench.CHEAP_NANO
LIVELY_WORDS_PER_S = 200
# What decisions are read from, and what calls of tools need.
_MORE = {"judging": ("logprobs", "top_logprobs"), "tools": ("tools", "tool_choice")}
_START_S = 20.0
_STOP_S = 12.0
_TAIL_CHARS = 3000


class Stand:
    """Start with `with Stand(generator) as stand:`. All addresses are on 127.0.0.1 or Unix sockets.

    `upstream` and `warnings` say what answers and what was left out. `key` is an inference key.
    Whatever else is started goes to `ends`. Without `with_ceiling` there is no ceiling.
    """

    def __init__(self, generator: Generator, *, with_ceiling: bool = True) -> None:
        self.generator = generator
        self._with_ceiling = with_ceiling
        self.warnings: list[str] = []
        self.ends = ExitStack()
        if generator.is_bundled:
            self.warn("wrk is not installed: the bundled generator competes for the same cores")

    def warn(self, warning: str) -> None:
        """Say it now, and keep it for the document."""
        self.warnings.append(warning)
        sys.stderr.write(f"bench: warning: {warning}\n")

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.ends.close()
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            # The last of what the servers logged, because the folder is about to go.
            for log in sorted(self.folder.glob("*.log")):
                if tail := log.read_text(errors="replace")[-_TAIL_CHARS:]:
                    sys.stderr.write(f"--- {log.name}\n{tail}\n")
        self.ends.close()

    def _start(self) -> None:
        # Short, because a Unix socket's path has about 100 characters at most.
        self.folder = Path(tempfile.mkdtemp(prefix="gateway-bench-"))
        self.folder.chmod(0o755)
        self.ends.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.postgres = PostgresCluster(self.folder / "postgres", durable=True)
        self._valkey = ValkeyServer(self.folder)
        for store in (self.postgres, self._valkey):
            self.ends.callback(store.stop)
            store.start()
        self.postgres.create(DATABASE)
        options = ["--seed", "7", "--parent-pid", str(os.getpid())]
        self.simulator = self.ends.enter_context(SimulatedUpstream(*options))
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
        if version and (url := start_nginx(self.folder / "nginx", self.ends)):
            return version, url
        why = "nginx does not start" if version else "nginx is not installed"
        self.warn(f"{why}: the simulated upstream, which costs more CPU, answers")
        return "simulated upstream", f"{self.simulator.url}/default"

    def _environment(self, settings: str) -> dict[str, str]:
        return clean_environment() | {
            "DJANGO_SETTINGS_MODULE": settings,
            "GATEWAY_HOME": str(self.folder / "home"),
            "DATABASE_URL": self.postgres.url(DATABASE),
            "REDIS_URL": self._valkey.url,
            "WEB_CONCURRENCY": str(WEB_WORKERS),
        }

    def new_gateway(
        self, name: str, settings: Mapping[str, str], *, worker: bool = False
    ) -> GatewayServer:
        """One on these stores with further settings, not started yet."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        env = self._environment("gateway.settings") | dict(settings)
        return GatewayServer(env=env, folder=folder, worker=worker)

    def _start_gateway(self) -> None:
        self.gateway = self.new_gateway(".", {}, worker=True)
        self.ends.callback(self.gateway.stop)
        migrated = self.gateway.run_command("migrate", "--verbosity", "0")
        assert migrated.status == 0, migrated
        catalogue = self.folder / "bench.yaml"
        catalogue.write_text(self._catalogue())
        self.gateway.manage("load_catalogue", str(catalogue))
        self.key = seed_account(self.gateway, credits_usd=CREDITS_USD).api_key
        self.gateway.start()
        self.web = ProcessTree(self.gateway.pid)

    def _start_ceiling(self) -> None:
        """gunicorn with the gateway's own settings round `tests/load/ceiling.py`."""
        listener = self.ends.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
        self.ceiling_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        bases, log = self.upstream_bases(), self.folder / "ceiling.log"
        addresses = {"CEILING_WHOLE": bases["whole"], "CEILING_STREAM": bases["paced"]}
        bind = {"GATEWAY_BIND": f"fd://{listener.fileno()}"}
        process = processes.spawn(
            [Path(sys.executable).parent / "gunicorn", "-c", "tests/load/ceiling_gunicorn.py"],
            log=log,
            env=self._environment("tests.load.ceiling_settings") | addresses | bind,
            cwd=PROJECT,
            pass_fds=[listener.fileno()],
        )
        self.ends.callback(processes.stop, process, grace_s=_STOP_S)
        self.ceiling_web = ProcessTree(process.pid)

        def there() -> bool:
            """Every worker; requests wait in the socket's queue while one loads."""
            assert process.poll() is None, log.read_text(errors="replace")
            return len(self.ceiling_web.worker_rss_bytes()) == WEB_WORKERS

        processes.eventually(there, within_s=_START_S, what="the ceiling's start", log=log)

    def upstream_bases(self) -> dict[str, str]:
        """Base URLs by provider: `whole` answers at once, `paced` in streams."""
        return {"whole": f"{self.upstream_url}/v1", "paced": f"{self.simulator.url}/paced/v1"}

    def _catalogue(self) -> str:
        """Providers of each wire kind; each serves one model."""
        simulator, slow = self.simulator.url, ("paced", "lively")
        providers = {name: ("openai", base) for name, base in self.upstream_bases().items()}
        providers |= {name: ("openai", f"{simulator}/{name}/v1") for name in ("tools", "judging")}
        for persona, wire in product(slow, BY_WIRE):
            providers[f"{persona}-{wire}"] = wire, f"{simulator}/{persona}/v1"
        policy = {"collects_data": False, "zdr": True, "credential": "upstream-credential"}
        found = [
            bench.provider(slug, base, kind=wire, **policy)
            for slug, (wire, base) in providers.items()
        ]
        return bench.as_yaml(found, [_model(slug) for slug in providers])


def _model(provider: str) -> dict[str, Any]:
    takes = ["temperature", "max_tokens", *_MORE.get(provider, ())]
    limits = {"max_completion_tokens": 16_384, "supported_parameters": takes}
    endpoint = bench.endpoint(provider, f"bench-{provider}", pricing=bench.CHEAP, **limits)
    return bench.model(f"bench/{provider}", endpoint, created=1_767_225_600)
