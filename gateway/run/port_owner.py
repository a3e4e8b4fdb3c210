"""Who listens on a port, for the person who wanted it."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

_LISTENING: Final = "0A"
_COMMAND_CHARS: Final = 80
_SECRET: Final = re.compile(r"(?i)(key|secret|token|passw)\S*|://\S*@")


def describe_owner(port: int) -> str:
    """`pid 4711 (python -m http.server)`; "" where nobody can tell, such as another user's."""
    sockets = {f"socket:[{inode}]" for inode in _list_listeners(port)}
    if not sockets:
        return ""
    for folder in Path("/proc").glob("[0-9]*"):
        # Processes end while they are looked at, and those of others show nothing.
        with suppress(OSError):
            if any(str(each.readlink()) in sockets for each in (folder / "fd").iterdir()):
                return f"pid {folder.name} ({_read_command(folder)})"
    return ""


def _list_listeners(port: int) -> list[str]:
    """The inodes of sockets that listen on it."""
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                    found.append(inode)
    return found


def _read_command(folder: Path) -> str:
    """The command without words that may be secrets."""
    words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    shown = " ".join("..." if _SECRET.search(word) else word for word in words if word)
    name = shown or (folder / "comm").read_text(encoding="utf-8").strip()
    plain = "".join(each if each.isprintable() else "?" for each in name)
    return plain if len(plain) <= _COMMAND_CHARS else f"{plain[:_COMMAND_CHARS]}..."
