"""GATEWAY_HOME: the one folder the gateway writes to, and the secrets it generates there."""

import os
import secrets
from pathlib import Path

from gateway.env import SettingError, text

PROJECT = Path(__file__).resolve().parent.parent


def home() -> Path:
    """GATEWAY_HOME as an absolute path (default `var/` in the checkout); it may not exist yet."""
    return (PROJECT / text("GATEWAY_HOME", "var")).resolve()


def private_folder(path: Path) -> Path:
    """Make `path` if needed, readable by its owner only."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def write_private(path: Path, content: str | bytes) -> None:
    """Write a 0600 file whole: readers see the old content or the new, never a part."""
    private_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    temporary.replace(path)


def _create_private(path: Path, content: str) -> None:
    """Like `write_private`, but the first writer wins; a file that exists stays."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    write_private(temporary, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()


def secret(name: str, *, production: bool, bytes_of_entropy: int = 32) -> str:
    """The secret from the environment, else (outside production) one kept in the home folder."""
    value = text(name)
    if value:
        return value
    if production:
        raise SettingError(name, "required in production")
    path = home() / "secrets" / name.lower()
    if not path.exists():
        _create_private(path, secrets.token_urlsafe(bytes_of_entropy))
    value = path.read_text(encoding="utf-8").strip()
    if not value:
        raise SettingError(name, f"its file {path} is empty: restore it or delete it")
    return value
