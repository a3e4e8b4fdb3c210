"""`make drill-peers`: the drill of `test_fewer_failures.py`, through other gateways too.

LiteLLM and Portkey have the retries, the time limit and the fallbacks that this gateway has, as
their documentation has them set. Each faces the same troubles in the same order.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from openai import OpenAI

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults.test_fewer_failures import (
    FIRST_BYTE_S,
    MODELS,
    PATIENCE,
    PROVIDERS,
    REQUESTS,
    check_charges,
    desk,
    run,
    run_through_gateway,
    unsettle,
)
from tests.load.peers import installs, servers
from tests.support import processes
from tests.support.postgres import free_port

__all__ = ["desk"]
_RETRIES = 2
_START_S = 180.0
_RETRIED_STATUSES = [408, 429, 500, 502, 503, 504]


@pytest.fixture(scope="module")
def clients(
    simulator: SimulatedUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Mapping[int, OpenAI]]]:
    """By gateway, and by how many providers are behind it."""
    installed = installs.install(Path(os.environ["GATEWAY_PEERS"]), sys.stderr.write)
    folder = tmp_path_factory.mktemp("peers")
    with ExitStack() as ends:
        litellm_url = start_litellm(installed, simulator, folder, ends)
        portkey_url = start_portkey(installed, folder, ends)
        yield {
            servers.LITELLM: {
                count: OpenAI(api_key="none", base_url=litellm_url, **PATIENCE) for count in MODELS
            },
            servers.PORTKEY: {
                count: OpenAI(
                    api_key="none",
                    base_url=portkey_url,
                    default_headers={
                        "x-portkey-config": json.dumps(portkey_config(simulator, count))
                    },
                    **PATIENCE,
                )
                for count in MODELS
            },
        }


def start_litellm(
    installed: installs.Installed, simulator: SimulatedUpstream, folder: Path, ends: ExitStack
) -> str:
    """Deployments of one model are tried in turn; those that fail are parked."""
    models = [
        {
            "model_name": model_id,
            "litellm_params": {
                "model": "openai/good",
                "api_base": f"{simulator.url}/{name}/v1",
                "api_key": f"{name}-secret",
                "timeout": FIRST_BYTE_S,
                "stream_timeout": FIRST_BYTE_S,
                "max_retries": 0,
            },
        }
        for count, model_id in MODELS.items()
        for name in PROVIDERS[:count]
    ]
    config = {
        "model_list": models,
        "litellm_settings": {"num_retries": _RETRIES, "set_verbose": False},
        "router_settings": {
            "num_retries": _RETRIES,
            "allowed_fails": 1,
        },
    }
    path = folder / "litellm.yaml"
    path.write_text(yaml.safe_dump(config))
    port = free_port()
    options = ["--host", "127.0.0.1", "--port", str(port), "--config", str(path)]
    command = [str(installed.litellm), *options, "--num_workers", "1"]
    servers.spawn_peer(servers.LITELLM, command, servers.LITELLM_ENVIRONMENT, folder, ends)
    wait_until_it_listens(f"http://127.0.0.1:{port}/health/liveliness")
    return f"http://127.0.0.1:{port}/v1"


def start_portkey(installed: installs.Installed, folder: Path, ends: ExitStack) -> str:
    port = free_port()
    command = servers.portkey_command(installed, port)
    servers.spawn_peer(servers.PORTKEY, command, servers.PORTKEY_ENVIRONMENT, folder, ends)
    wait_until_it_listens(f"http://127.0.0.1:{port}/")
    return f"http://127.0.0.1:{port}/v1"


def portkey_config(simulator: SimulatedUpstream, count: int) -> dict[str, Any]:
    """One target after the other, each with its retries."""
    targets = [
        {
            "provider": "openai",
            "custom_host": f"{simulator.url}/{name}/v1",
            "api_key": f"{name}-secret",
            "override_params": {"model": "good"},
            "request_timeout": int(FIRST_BYTE_S * 1000),
            "retry": {"attempts": _RETRIES, "on_status_codes": _RETRIED_STATUSES},
        }
        for name in PROVIDERS[:count]
    ]
    return {"strategy": {"mode": "fallback"}, "targets": targets}


def wait_until_it_listens(url: str) -> None:
    def answers() -> bool:
        try:
            return httpx.get(url).status_code < 500
        except httpx.HTTPError:
            return False

    processes.eventually(answers, within_s=_START_S, what=f"an answer at {url}", log=None)


@pytest.mark.parametrize("count", MODELS)
def test_callers_see_fewer_failures_than_through_other_gateways(
    desk: Desk,
    simulator: SimulatedUpstream,
    clients: Mapping[str, Mapping[int, OpenAI]],
    count: int,
) -> None:
    failed: dict[str, int] = {}
    endings = {}
    for name, by_count in clients.items():
        unsettle(simulator, count)
        endings[name] = run([by_count[count]], MODELS[count])
    endings[servers.OURS] = run_through_gateway(desk, simulator, count)
    for name, ended in endings.items():
        failed[name] = REQUESTS - ended["whole"]
        sys.stdout.write(f"{count} providers, {name}: {failed[name]} failed, {dict(ended)}\n")
    ours = failed.pop(servers.OURS)
    assert ours < min(failed.values()), endings
    check_charges(desk)
