"""The way of one plain chat request through the gateway: `python -m tests.load.walk [--list]`.

One gateway in this process on SQLite, its provider the simulated upstream. Prints how many
files of the product the request's thread enters and how many calls it makes there; with `--list`,
which ones, in order. The ledger's thread works for all requests and is not counted.
"""

import argparse
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from routing.simulator.testing import SimulatedUpstream

PROJECT: Final = Path(__file__).resolve().parents[2]
_PRODUCT: Final = tuple(f"{PROJECT}/{app}/" for app in ("gateway", "accounts", "routing"))
_MODEL: Final = "walk/plain"
_PATH: Final = "/api/v1/chat/completions"
# Enough requests for every cache that a later one finds filled.
_WARM_UPS: Final = 20
_CATALOGUE: Final = """
providers:
  - {slug: walk, name: Walk, kind: openai, base_url: "URL/default/v1"}
models:
  - id: walk/plain
    name: Plain
    input_modalities: [text]
    output_modalities: [text]
    context_length: 32000
    endpoints:
      - provider: walk
        upstream_model: plain
        supported_parameters: [max_tokens, temperature]
        pricing: {prompt: "0.000001", completion: "0.000002"}
"""


class Walk:
    """Counts the calls of product functions on this thread, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __enter__(self) -> "Walk":
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # Comprehensions are frames of their own in some versions of Python only.
        if event == "call" and code.co_filename.startswith(_PRODUCT) and code.co_name[0] != "<":
            self.calls.append(f"{code.co_filename[len(str(PROJECT)) + 1 :]}:{code.co_qualname}")

    @property
    def files(self) -> list[str]:
        """Each file once, in the order in which it is entered first."""
        return list(dict.fromkeys(call.partition(":")[0] for call in self.calls))


def gateway(folder: Path, url: str) -> Callable[[], bytes]:
    """A gateway with one model; what is returned asks it one question and gives the answer."""
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "gateway.settings",
        "GATEWAY_HOME": str(folder),
        "DATABASE_URL": f"sqlite:///{folder}/walk.sqlite3",
        "REDIS_URL": "",
    }
    from django.test import RequestFactory

    from gateway.wsgi import application  # The environment is read when Django is set up.

    def manage(*command: str) -> dict[str, Any]:
        from django.core.management import call_command

        out = io.StringIO()
        call_command(*command, stdout=out)
        return dict(json.loads(out.getvalue() or "{}"))

    (folder / "catalogue.yaml").write_text(_CATALOGUE.replace("URL", url))
    manage("migrate", "--verbosity", "0")
    manage("load_catalogue", str(folder / "catalogue.yaml"), "--json")
    account = ("--account", "walk", "--workspace", "main", "--credits", "5")
    key = manage("seed_keys", *account, "--json")["api_key"]
    from routing import process

    process.start()
    body = json.dumps(
        {"model": _MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 40}
    ).encode()

    headers = {"Authorization": f"Bearer {key}", "User-Agent": "walk"}

    def ask() -> bytes:
        request = RequestFactory(headers=headers).post(_PATH, body, "application/json")
        environ = {**request.environ, "RAW_URI": _PATH, "wsgi.input": io.BytesIO(body)}
        statuses: list[str] = []
        response = application(environ, lambda status, *_: statuses.append(status))  # type: ignore[arg-type]  # Nothing is written by it.
        try:
            answer = b"".join(response)
        finally:
            response.close()
        assert statuses == ["200 OK"], (statuses, answer)
        return answer

    return ask


def measure_walk() -> Walk:
    """The way of one request after others have filled the caches."""
    with (
        tempfile.TemporaryDirectory(prefix="gateway-walk-") as folder,
        SimulatedUpstream() as upstream,
    ):
        ask = gateway(Path(folder), upstream.url)
        for _ in range(_WARM_UPS):
            ask()
        with Walk() as walk:
            ask()
        from routing import process

        process.stop()
    return walk


def main() -> None:
    parser = argparse.ArgumentParser(prog="walk")
    parser.add_argument("--list", action="store_true", help="print files and calls in order")
    is_listed = parser.parse_args().list
    walk = measure_walk()
    if is_listed:
        sys.stdout.write("\n".join([*walk.files, "", *walk.calls, "", ""]))
    sys.stdout.write(f"{len(walk.files)} files, {len(walk.calls)} calls\n")


if __name__ == "__main__":
    main()
