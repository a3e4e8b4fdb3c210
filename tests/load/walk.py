"""The way of one plain chat request through the gateway: `python -m tests.load.walk [--list]`.

One gateway in this process on SQLite, its provider a socket that answers at once. Prints how many
files of the product the request's thread enters and how many calls it makes there; with `--list`,
which ones, in order. The ledger's thread works for all requests and is not counted.
"""

import argparse
import io
import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

PROJECT: Final = Path(__file__).resolve().parents[2]
_PRODUCT: Final = tuple(f"{PROJECT}/{app}/" for app in ("gateway", "accounts", "routing"))
_MODEL: Final = "walk/plain"
# Enough requests for every cache that a later one finds filled.
_WARM_UPS: Final = 20
_ANSWER: Final = json.dumps(
    {
        "id": "up-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "plain",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello to you"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    }
).encode()
_CATALOGUE: Final = """
providers:
  - {slug: walk, name: Walk, kind: openai, base_url: "http://127.0.0.1:PORT/v1"}
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


def provider() -> int:
    """The port of a provider that gives every request the same answer, on connections kept open."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        with connection:
            # A request is small enough to come in one piece.
            while connection.recv(65_536):
                connection.sendall(head % len(_ANSWER) + _ANSWER)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    port: int = listener.getsockname()[1]
    return port


def gateway(folder: Path, port: int) -> Callable[[], bytes]:
    """A gateway with one model; what is returned asks it one question and gives the answer."""
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "gateway.settings",
        "GATEWAY_HOME": str(folder),
        "DATABASE_URL": f"sqlite:///{folder}/walk.sqlite3",
        "REDIS_URL": "",
    }
    from gateway.wsgi import application  # The environment is read when Django is set up.

    def manage(*command: str) -> dict[str, Any]:
        from django.core.management import call_command

        out = io.StringIO()
        call_command(*command, stdout=out)
        return dict(json.loads(out.getvalue() or "{}"))

    (folder / "catalogue.yaml").write_text(_CATALOGUE.replace("PORT", str(port)))
    manage("migrate", "--verbosity", "0")
    manage("load_catalogue", str(folder / "catalogue.yaml"), "--json")
    account = ("--account", "walk", "--workspace", "main", "--credits", "5")
    key = manage("seed_keys", *account, "--json")["api_key"]
    from routing import process

    process.start()
    body = json.dumps(
        {"model": _MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 40}
    ).encode()

    def ask() -> bytes:
        environ = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/api/v1/chat/completions",
            "RAW_URI": "/api/v1/chat/completions",
            "QUERY_STRING": "",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_HOST": "127.0.0.1",
            "HTTP_AUTHORIZATION": f"Bearer {key}",
            "HTTP_USER_AGENT": "walk",
            "REMOTE_ADDR": "127.0.0.1",
            "wsgi.input": io.BytesIO(body),
            "wsgi.url_scheme": "http",
        }
        statuses: list[str] = []
        response = application(environ, lambda status, *_: statuses.append(status))  # type: ignore[arg-type]
        try:
            answer = b"".join(response)
        finally:
            response.close()
        assert statuses == ["200 OK"], (statuses, answer)
        return answer

    return ask


def walked() -> Walk:
    """The way of one request after others have filled the caches."""
    with tempfile.TemporaryDirectory(prefix="gateway-walk-") as folder:
        ask = gateway(Path(folder), provider())
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
    walk = walked()
    if is_listed:
        sys.stdout.write("\n".join([*walk.files, "", *walk.calls, "", ""]))
    sys.stdout.write(f"{len(walk.files)} files, {len(walk.calls)} calls\n")


if __name__ == "__main__":
    main()
