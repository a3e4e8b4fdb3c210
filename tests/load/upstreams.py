"""What answers behind the gateway: nginx with a fixed body, or the simulated upstream."""

import json
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import requests

from tests.support import processes
from tests.support.postgres import free_port

_START_S = 5.0
_MESSAGE = {"role": "assistant", "content": "The same answer every time."}
_CHOICE = {"index": 0, "message": _MESSAGE, "finish_reason": "stop"}
_NAMES = {"id": "chatcmpl-bench", "object": "chat.completion", "created": 1_767_225_600}
_USAGE = {"prompt_tokens": 12, "completion_tokens": 6, "total_tokens": 18}
ANSWER = json.dumps({**_NAMES, "model": "bench", "choices": [_CHOICE], "usage": _USAGE})
# One process, so that it ends with the bench; its own folders, so that anyone may run it.
_CONFIGURATION = """
daemon off;
master_process off;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    keepalive_requests 100000000; keepalive_timeout 600s;
    default_type application/json;
    server {{
        listen 127.0.0.1:{port} backlog=512;
        location / {{ return 200 '{answer}'; }}
    }}
}}
"""


def start_nginx(folder: Path, ends: ExitStack) -> str:
    """Its URL, where every POST gets `ANSWER` until `ends`; empty where this nginx does not come
    up."""
    folder.mkdir()
    port, file, log = free_port(), folder / "nginx.conf", folder / "nginx.log"
    url = f"http://127.0.0.1:{port}"
    file.write_text(_CONFIGURATION.format(port=port, answer=ANSWER))
    command = ["nginx", "-e", "stderr", "-p", f"{folder}/", "-c", str(file)]
    process = processes.spawn(command, log=log)
    ends.callback(processes.stop, process, grace_s=2)

    def answers() -> bool:
        try:
            return requests.post(url, b"{}", timeout=1).content == ANSWER.encode()
        except requests.RequestException:
            return False

    try:
        processes.eventually(answers, within_s=_START_S, what="nginx's start", log=log)
    except TimeoutError:
        return ""
    return url


def nginx_version() -> str:
    """Such as `nginx 1.22.1`; empty when it is not installed."""
    if shutil.which("nginx") is None:
        return ""
    said = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=False).stderr
    return said.rpartition(": ")[2].split(" (")[0].strip().replace("/", " ")
