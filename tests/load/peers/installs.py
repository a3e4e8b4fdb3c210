"""Other gateways, installed at a fixed version into folders of their own below GATEWAY_HOME."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway.home import home, private_folder

LITELLM_VERSION = "1.106.2"
PORTKEY_VERSION = "1.15.2"
# What its own lock names. With a later one, which it would take, its streams end in `TypeError:
# immutable` (its issue 1389).
HONO_NODE_SERVER_VERSION = "1.13.5"
_PORTKEY_PACKAGE = {
    "private": True,
    "dependencies": {"@portkey-ai/gateway": PORTKEY_VERSION},
    "overrides": {"@hono/node-server": HONO_NODE_SERVER_VERSION},
}
_INSTALL_S = 900
_TAIL_CHARS = 1500
# What else decides how fast LiteLLM is; its own versions leave these open.
_TOLD_PACKAGES = ("uvicorn", "uvloop", "fastapi", "starlette", "httpx", "aiohttp", "openai")


class InstallFailed(Exception):
    """A gateway could not be installed; the text says which, and the installer's last words."""


@dataclass(frozen=True)
class Installed:
    """Where the gateways are: a command of LiteLLM and a script of Portkey's for node."""

    litellm: Path
    portkey: Path


def install(place: Path, say: Callable[[str], object]) -> Installed:
    """Both, below `place`/peers; what an earlier call installed stays. Raises `InstallFailed`."""
    folder = private_folder(place / "peers")
    return Installed(_litellm(folder / "litellm", say), _portkey(folder / "portkey", say))


def main() -> int:
    """Install both and print the folder. Returns the exit status."""
    try:
        install(home(), lambda line: sys.stderr.write(f"{line}\n"))
    except InstallFailed as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{home()}\n")
    return 0


def _litellm(folder: Path, say: Callable[[str], object]) -> Path:
    stamp = folder / f".installed-{LITELLM_VERSION}"
    if not stamp.exists():
        say(f"installing LiteLLM {LITELLM_VERSION} (first time only)")
        _run("LiteLLM", sys.executable, "-m", "venv", "--clear", str(folder))
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--no-input", "--quiet"]
        _run("LiteLLM", *pip, f"litellm[proxy]=={LITELLM_VERSION}")
        stamp.touch()
    return folder / "bin" / "litellm"


def _portkey(folder: Path, say: Callable[[str], object]) -> Path:
    if not (shutil.which("node") and shutil.which("npm")):
        raise InstallFailed("Portkey's gateway needs node and npm, which are not installed")
    stamp = folder / f".installed-{PORTKEY_VERSION}-{HONO_NODE_SERVER_VERSION}"
    if not stamp.exists():
        say(f"installing Portkey's gateway {PORTKEY_VERSION} (first time only)")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "package.json").write_text(json.dumps(_PORTKEY_PACKAGE))
        npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]
        _run("Portkey's gateway", *npm, str(folder))
        stamp.touch()
    return folder / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"


def _run(what: str, *command: str) -> str:
    """What it printed."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_INSTALL_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallFailed(f"{what} could not be installed: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-_TAIL_CHARS:]
        raise InstallFailed(f"{what} could not be installed:\n{said}")
    return done.stdout


def versions(installed: Installed) -> dict[str, dict[str, str]]:
    """By gateway, the versions that a figure depends on."""
    python = str(installed.litellm.with_name("python"))
    packages = json.loads(_run("LiteLLM", python, "-m", "pip", "list", "--format=json"))
    told = {one["name"]: one["version"] for one in packages if one["name"] in _TOLD_PACKAGES}
    told["python"] = _run("LiteLLM", python, "--version").split()[-1]
    return {
        "LiteLLM": {"litellm": LITELLM_VERSION, **told},
        "Portkey": {
            "@portkey-ai/gateway": PORTKEY_VERSION,
            "@hono/node-server": HONO_NODE_SERVER_VERSION,
            "node": _run("Portkey", "node", "--version").strip().removeprefix("v"),
        },
    }


if __name__ == "__main__":
    sys.exit(main())
