"""What answers behind the gateway: nginx with a fixed body, or the simulated upstream."""

import http.client
import json
import shutil
import subprocess
from pathlib import Path

from tests.support import processes
from tests.support.postgres import free_port

_START_S = 5.0
ANSWER = json.dumps(
    {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1_767_225_600,
        "model": "bench",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "The same answer every time."},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 12, "completion_tokens": 6, "total_tokens": 18},
    }
)
# One process, so that it ends with the bench; its own folders, so that anyone may run it.
_CONFIGURATION = """
daemon off;
master_process off;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    keepalive_requests 100000000;
    keepalive_timeout 600s;
    default_type application/json;
    server {{
        listen 127.0.0.1:{port} backlog=512;
        location / {{ return 200 '{answer}'; }}
    }}
}}
"""


class NginxUpstream:
    """Every POST gets `ANSWER`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> bool:
        """False where this nginx does not come up."""
        self._folder.mkdir()
        file = self._folder / "nginx.conf"
        file.write_text(_CONFIGURATION.format(port=self._port, answer=ANSWER))
        log = self._folder / "nginx.log"
        command = ["nginx", "-e", "stderr", "-p", f"{self._folder}/", "-c", str(file)]
        self._process = processes.spawn(command, log=log)
        try:
            processes.eventually(self._answers, within_s=_START_S, what="nginx's start", log=log)
        except TimeoutError:
            self.stop()
            return False
        return True

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=1)
        try:
            connection.request("POST", "/v1/chat/completions", b"{}")
            return connection.getresponse().read() == ANSWER.encode()
        except OSError:
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        if self._process is not None:
            processes.stop(self._process, grace_s=2)
            self._process = None


def nginx_version() -> str:
    """Such as `nginx 1.22.1`; empty when it is not installed."""
    if shutil.which("nginx") is None:
        return ""
    said = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=False).stderr
    return said.rpartition(": ")[2].split(" (")[0].strip().replace("/", " ")
