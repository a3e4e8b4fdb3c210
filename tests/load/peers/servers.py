"""The gateways under comparison, running: where to send what, and which processes to account."""

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from os import killpg
from pathlib import Path

import yaml

from tests.load.accounting import ProcessReplaced, ProcessTree, spent_s
from tests.load.answers import asked, check_governed, check_passed_on
from tests.load.generators import LoadFailed, Target
from tests.load.measures import stream_body, whole_body
from tests.load.peers.installs import Installed
from tests.load.stand import WEB_WORKERS, Stand
from tests.support import processes
from tests.support.postgres import free_port
from tests.support.running import clean_environment

OURS, PORTKEY, LITELLM = "this gateway", "Portkey", "LiteLLM"
_LOOPBACK = Path(__file__).with_name("loopback.cjs")
# LiteLLM imports for ten seconds on a quiet machine, once in each of its processes.
_START_S = 120.0
_STOP_S = 10.0
# While nothing is asked. A worker that is still loading takes a whole core.
_REST_LOOK_S = 1.0
_REST_CORES_MAX = 0.2
# Portkey passes the caller's on; LiteLLM has its own for the upstream, and asks callers for none.
_CREDENTIAL = "upstream-credential"
_LITELLM_ENVIRONMENT = {
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
    # Its price list would come from the internet.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # Keys off: without this it does not start without one.
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}


@dataclass(frozen=True)
class Server:
    """One gateway: `whole` and `stream` are what its callers ask for, `tree` its processes.

    `beside` is its database, where it has one.
    """

    name: str
    whole: Target
    stream: Target
    tree: ProcessTree
    beside: ProcessTree | None = None

    def with_chunks(self, chunks: int) -> Target:
        """`stream`, of that many words."""
        return replace(self.stream, body=stream_body(chunks))


def ours(stand: Stand) -> Server:
    """This gateway, with keys, limits and ledger on."""
    url = f"{stand.gateway.base_url}/chat/completions"
    server = _server(OURS, url, stand.key, stand.gateway.pid)
    return replace(server, beside=ProcessTree(stand.postgres.pid))


def start_portkey(stand: Stand, installed: Installed, ends: ExitStack) -> Server:
    """Portkey's gateway as its own start script runs it in production: one process, no console."""
    port = free_port()
    script = ["--require", str(_LOOPBACK), str(installed.portkey)]
    command = ["node", *script, f"--port={port}", "--headless"]
    process = _start(PORTKEY, command, {"NODE_ENV": "production"}, stand.folder, ends)
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    server = _server(PORTKEY, url, _CREDENTIAL, process.pid)
    # It learns from each request where that is to go.
    whole, stream = (
        {"x-portkey-provider": "openai", "x-portkey-custom-host": stand.upstream_bases()[name]}
        for name in ("whole", "paced")
    )
    return _ready(
        replace(
            server,
            whole=replace(server.whole, headers=whole),
            stream=replace(server.stream, headers=stream),
        ),
        process,
    )


def start_litellm(stand: Stand, installed: Installed, ends: ExitStack) -> Server:
    """LiteLLM's proxy with as many workers as this gateway has, and no debug logging."""
    port = free_port()
    config = stand.folder / "litellm.yaml"
    config.write_text(yaml.safe_dump(litellm_config(stand.upstream_bases())))
    options = ["--host", "127.0.0.1", "--port", str(port), "--num_workers", str(WEB_WORKERS)]
    command = [str(installed.litellm), *options, "--config", str(config)]
    process = _start(LITELLM, command, _LITELLM_ENVIRONMENT, stand.folder, ends)
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    return _ready(_server(LITELLM, url, _CREDENTIAL, process.pid), process)


def litellm_config(bases: Mapping[str, str]) -> dict[str, object]:
    """The same models under the same names. Retries off: there is one upstream, as for all."""
    models = [
        {
            "model_name": f"bench/{name}",
            "litellm_params": {
                "model": f"openai/bench-{name}",
                "api_base": base,
                "api_key": _CREDENTIAL,
            },
        }
        for name, base in bases.items()
    ]
    return {"model_list": models, "litellm_settings": {"set_verbose": False, "num_retries": 0}}


def check_answers(servers: Sequence[Server], stand: Stand) -> None:
    """Each passes on what the upstream says, and ours prices it. Raises `LoadFailed`."""
    url = f"{stand.upstream_bases()['whole']}/chat/completions"
    direct = asked(Target(url, _CREDENTIAL, whole_body()))
    for server in servers:
        check = check_governed if server.name == OURS else check_passed_on
        check(asked(server.whole), direct)


def _server(name: str, url: str, key: str, pid: int) -> Server:
    whole = Target(url, key, whole_body())
    return Server(name, whole, Target(url, key, stream_body(1)), ProcessTree(pid))


def _start(
    name: str,
    command: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    ends: ExitStack,
) -> subprocess.Popen[bytes]:
    """Its first process; all of its group end with `ends`."""
    process = processes.spawn(
        command,
        log=folder / f"{name.lower()}.log",
        # Whatever it keeps for its user goes with the bench.
        env={**clean_environment(), "HOME": str(folder), **env},
        cwd=folder,
        # Asked to end when the bench is killed, so that it takes its workers with it.
        death_signal=signal.SIGTERM,
    )

    def stop() -> None:
        processes.stop(process, grace_s=_STOP_S)
        # Whatever its first process did about its children.
        with suppress(ProcessLookupError):
            killpg(process.pid, signal.SIGKILL)

    ends.callback(stop)
    return process


def _ready(server: Server, process: subprocess.Popen[bytes]) -> Server:
    """The same, once it answers and none of its processes is still loading.

    Raises `LoadFailed` when it ends instead, TimeoutError when it dawdles.
    """

    def answers() -> bool:
        if process.poll() is not None:
            raise LoadFailed(f"{server.name} did not start: status {process.returncode}")
        try:
            return bool(asked(server.whole))
        except LoadFailed:
            return False

    def rests() -> bool:
        before = server.tree.cpu_s()
        time.sleep(_REST_LOOK_S)
        try:
            return spent_s(before, server.tree.cpu_s()) < _REST_CORES_MAX * _REST_LOOK_S
        except ProcessReplaced:
            return False

    for holds, what in ((answers, "start"), (rests, "rest")):
        processes.eventually(holds, within_s=_START_S, what=f"{server.name}'s {what}", log=None)
    return server
