"""The gateways under comparison, running: where to send what, and which processes to account."""

import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from os import killpg
from pathlib import Path
from subprocess import Popen

import yaml

from tests.load.accounting import ProcessReplaced, ProcessTree, spent_s
from tests.load.asks import check_governed, check_passed_on, stream_body, whole_body
from tests.load.peers.installs import Installed
from tests.load.stand import WEB_WORKERS, Stand
from tests.load.targets import LoadFailed, Target, fetch_answer
from tests.support import processes
from tests.support.postgres import free_port
from tests.support.running import clean_environment

OURS, PORTKEY, LITELLM = "this gateway", "Portkey", "LiteLLM"
_LOOPBACK = Path(__file__).with_name("loopback.cjs")
# LiteLLM imports for ten seconds on a quiet machine, once in each of its processes.
_START_S = 120.0
_STOP_S = 10.0
PORTKEY_ENVIRONMENT = {"NODE_ENV": "production"}
# While nothing is asked. A worker that is still loading takes a whole core.
_REST_LOOK_S = 1.0
_REST_CORES_MAX = 0.2
# Portkey passes the caller's on; LiteLLM has its own for the upstream, and asks callers for none.
_CREDENTIAL = "upstream-credential"
LITELLM_ENVIRONMENT = {
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


def start_servers(stand: Stand, installed: Installed) -> list[Server]:
    """This gateway, with keys, limits and ledger on, and the others. Raises `LoadFailed` unless
    each passes on what the upstream says, and ours prices it."""
    url = f"{stand.gateway.base_url}/chat/completions"
    whole, stream = (Target(url, stand.key, body) for body in (whole_body(), stream_body(1)))
    trees = ProcessTree(stand.gateway.pid), ProcessTree(stand.postgres.pid)
    servers = [Server(OURS, whole, stream, *trees)]
    servers += [start(stand, installed) for start in (_start_portkey, _start_litellm)]
    url = f"{stand.upstream_bases()['whole']}/chat/completions"
    direct = fetch_answer(Target(url, _CREDENTIAL, whole_body()))
    for server in servers:
        check = check_governed if server.name == OURS else check_passed_on
        check(fetch_answer(server.whole), direct)
    return servers


def _start_portkey(stand: Stand, installed: Installed) -> Server:
    """Portkey's gateway as its own start script runs it in production: one process, no console."""
    port = free_port()
    command = portkey_command(installed, port)
    # It learns from each request where that is to go.
    headers = {
        name: {"x-portkey-provider": "openai", "x-portkey-custom-host": base}
        for name, base in stand.upstream_bases().items()
    }
    return _start(PORTKEY, command, PORTKEY_ENVIRONMENT, port, stand, headers)


def portkey_command(installed: Installed, port: int) -> list[str]:
    """Starts one process on that port of loopback."""
    script = ["--require", str(_LOOPBACK), str(installed.portkey)]
    return ["node", *script, f"--port={port}", "--headless"]


def _start_litellm(stand: Stand, installed: Installed) -> Server:
    """LiteLLM's proxy with as many workers as this gateway has, and no debug logging."""
    port, credential = free_port(), {"api_key": _CREDENTIAL}
    models = [
        {
            "model_name": f"bench/{name}",
            "litellm_params": {"model": f"openai/bench-{name}", "api_base": base} | credential,
        }
        for name, base in stand.upstream_bases().items()
    ]
    # There is one upstream, as for all.
    settings = {"set_verbose": False, "num_retries": 0}
    config = stand.folder / "litellm.yaml"
    config.write_text(yaml.safe_dump({"model_list": models, "litellm_settings": settings}))
    options = ["--host", "127.0.0.1", "--port", str(port), "--num_workers", str(WEB_WORKERS)]
    command = [str(installed.litellm), *options, "--config", str(config)]
    return _start(LITELLM, command, LITELLM_ENVIRONMENT, port, stand, {})


def _start(
    name: str,
    command: Sequence[str],
    env: Mapping[str, str],
    port: int,
    stand: Stand,
    headers: Mapping[str, Mapping[str, str]],
) -> Server:
    """Once it answers and none of its processes is still loading; all of them end with the stand.

    Raises `LoadFailed` when it ends instead, TimeoutError when it dawdles.
    """
    process = spawn_peer(name, command, env, stand.folder, stand.ends)
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    whole = Target(url, _CREDENTIAL, whole_body(), headers.get("whole", {}))
    stream = Target(url, _CREDENTIAL, stream_body(1), headers.get("paced", {}))
    tree = ProcessTree(process.pid)

    def answers() -> bool:
        if process.poll() is not None:
            raise LoadFailed(f"{name} did not start: status {process.returncode}")
        try:
            return bool(fetch_answer(whole))
        except LoadFailed:
            return False

    def rests() -> bool:
        before = tree.cpu_s()
        time.sleep(_REST_LOOK_S)
        try:
            return spent_s(before, tree.cpu_s()) < _REST_CORES_MAX * _REST_LOOK_S
        except ProcessReplaced:
            return False

    for holds, what in ((answers, "start"), (rests, "rest")):
        processes.eventually(holds, within_s=_START_S, what=f"{name}'s {what}", log=None)
    return Server(name, whole, stream, tree)


def spawn_peer(
    name: str, command: Sequence[str], env: Mapping[str, str], folder: Path, ends: ExitStack
) -> Popen[bytes]:
    """Another gateway, whose log and home are in `folder`; `ends` stops all its processes."""
    process = processes.spawn(
        command,
        log=folder / f"{name.lower()}.log",
        # Whatever it keeps for its user goes with the folder.
        env={**clean_environment(), "HOME": str(folder), **env},
        cwd=folder,
        # Asked to end when the caller is killed, so that it takes its workers with it.
        death_signal=signal.SIGTERM,
    )

    def stop() -> None:
        processes.stop(process, grace_s=_STOP_S)
        # Whatever its first process did about its children.
        with suppress(ProcessLookupError):
            killpg(process.pid, signal.SIGKILL)

    ends.callback(stop)
    return process
