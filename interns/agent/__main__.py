"""`python -m interns.agent [FILE]`: its configuration comes as JSON from the file, which goes then,
or on standard input."""

import ctypes
import gc
import json
import logging
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

# Set before the libraries are loaded: what they log at boot is of no use to anyone.
os.environ.setdefault("LOGFIRE_IGNORE_NO_CONFIG", "1")
# A boot is mostly imports. httpx goes on without its command, which would load Rich and Pygments.
sys.modules["httpx._main"] = None  # type: ignore[assignment] # This is how an import is refused.
_PR_SET_DUMPABLE = 4


def main() -> None:
    """Serve until asked to stop."""
    if os.getpid() == 1:
        _reap_orphans()
    from interns.agent.config import read_config

    config = read_config(_read_config())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    if sys.platform == "linux":
        # Commands run as the same user: they shall not read the runtime's token from our memory.
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0)
    if config.isolation == "bubblewrap":
        # In a sandbox with a user of its own they are counted there; elsewhere they are the host's.
        processes = config.limits.processes
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    for folder in (config.workspace, config.sessions):
        folder.mkdir(parents=True, exist_ok=True)

    # What imports leave stays: looking through it for garbage takes a tenth of the boot.
    gc.disable()
    import uvicorn

    from interns.agent.gateway import GatewayClient, build_client, build_model
    from interns.agent.loop import AgentLoop
    from interns.agent.runs import RunDesk
    from interns.agent.server import AgentServer
    from interns.agent.sessions import AgentSessions

    http = build_client(config)
    loop = AgentLoop(config, build_model(config, http))
    desk = RunDesk(
        config, loop, AgentSessions(config.sessions), GatewayClient(http, config.intern_id)
    )
    app = AgentServer(config, desk, loop.tool_names).app()
    gc.freeze()
    gc.enable()
    logging.info("%s is ready, isolation: %s", config.name, config.isolation)
    uvicorn.run(
        app,
        fd=config.listen_fd,
        uds=config.listen_path,
        loop="asyncio",
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )


def _read_config() -> Any:
    if len(sys.argv) < 2:
        return json.load(sys.stdin.buffer)
    file = Path(sys.argv[1])
    given = json.loads(file.read_bytes())
    # What runs here later has no business with the token.
    file.unlink()
    return given


def _reap_orphans() -> None:
    """As a container's first process: go on as its child, and stay behind to bury whoever is left
    by its parent."""
    agent = os.fork()
    if not agent:
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: os.kill(agent, number))
    while True:
        ended, status = os.wait()
        if ended == agent:
            os._exit(abs(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main()
