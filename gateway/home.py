"""GATEWAY_HOME: the one folder the gateway writes to, and the secrets it generates there."""

import importlib.util
import json
import os
import secrets
from pathlib import Path
from typing import Any

from gateway.env import SettingError, text

# 32 bytes in base64, without its padding.
_STRONG_CHARS = 43
# The checkout, or the folder that a wheel was installed into.
PROJECT = Path(__file__).resolve().parent.parent


def find_package(name: str) -> Path:
    """The folder of an installed package, which is not imported."""
    found = importlib.util.find_spec(name)
    assert found is not None
    assert found.origin is not None, f"{name} is in the locks"
    return Path(found.origin).parent


def home() -> Path:
    """GATEWAY_HOME as an absolute path; it may not exist yet.

    By default `var/` in a checkout, and the user's data folder for an installed gateway.
    """
    place = text("GATEWAY_HOME")
    if (PROJECT / "pyproject.toml").exists():
        return (PROJECT / (place or "var")).resolve()
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(place or Path(data) / "routing-gateway").resolve()


def private_folder(path: Path) -> Path:
    """Make `path` if needed, with the folders on the way, readable by their owner only."""
    for folder in (*reversed(path.parents), path):
        folder.mkdir(exist_ok=True, mode=0o700)
    return path


def keep_private(place: Path) -> None:
    """From now on this process makes files for its owner only. A home that earlier ones left open
    is closed: it holds password hashes and what callers keep here."""
    os.umask(0o077)
    try:
        closed = place.exists() and not os.access(place, os.R_OK | os.X_OK)
    except PermissionError:
        closed = True
    if closed:
        raise SettingError("GATEWAY_HOME", f"this user may not read {place}")
    if not place.is_dir() or place.stat().st_uid != os.geteuid():
        return
    for path in (place, *place.glob("*.sqlite3*")):
        if path.stat().st_mode & 0o077:
            path.chmod(path.stat().st_mode & 0o700)


def run_in_progress() -> dict[str, Any]:
    """The `ready.json` of the gateway that `make run` started in this home; empty without one."""
    try:
        facts: dict[str, Any] = json.loads((home() / "run" / "ready.json").read_bytes())
        os.kill(int(facts["pid"]), 0)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return facts


def was_run() -> bool:
    """Whether `make run` made this home."""
    return (home() / "secrets" / "demo.json").exists()


def write_private(path: Path, content: str | bytes) -> None:
    """Write a 0600 file whole: readers see the old content or the new, never a part."""
    private_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    temporary.replace(path)


def secret(name: str, *, production: bool, bytes_of_entropy: int = 32) -> str:
    """The secret from the environment, else (outside production) one kept in the home folder.

    In production it must have the length and the variety of 32 random bytes.
    """
    value = text(name)
    if value:
        # Base64 has four characters for three bytes, and a random one has hardly less variety.
        if production and (len(value) < _STRONG_CHARS or len(set(value)) < 10):
            raise SettingError(
                name,
                "needs at least 32 random bytes in production; make one with"
                " python3 -c 'import secrets; print(secrets.token_urlsafe(48))'",
            )
        return value
    if production:
        raise SettingError(name, "required in production")
    path = home() / "secrets" / name.lower()
    if not path.exists():
        # Like `write_private`, but the first writer wins; a file that exists stays.
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        write_private(temporary, secrets.token_urlsafe(bytes_of_entropy))
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    value = path.read_text(encoding="utf-8").strip()
    if not value:
        raise SettingError(name, f"its file {path} is empty: restore it or delete it")
    return value
