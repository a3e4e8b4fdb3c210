"""The workspace, a folder whose paths never lead out of it, and how full its disk is.

Each part of a path is opened beneath the one before, and no symbolic link is followed. So neither
`..` nor a link reaches anything else, even one swapped in at the last moment. Nothing keeps a
process from filling a shared disk, so its use is checked before a write and while a command runs.
"""

import asyncio
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ENTRIES_MAX = 1000
DEPTH_MAX = 32
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class WorkspaceError(Exception):
    """What the model reads when a path cannot be used."""


class AgentWorkspace:
    """Reading, writing and listing below `root`. Paths are relative to it; sizes are bytes."""

    def __init__(self, root: Path, *, file_bytes: int) -> None:
        self._root = root
        self._file_bytes = file_bytes

    def read(self, path: str) -> str:
        """The text of a file. Raises `WorkspaceError`."""
        parts = self._split(path)
        with _convert_errors(path), self._open_folder(parts[:-1]) as folder:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(parts[-1], flags, dir_fd=folder)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise WorkspaceError(f"{path} is not a file")
                content = file.read(self._file_bytes + 1)
        if len(content) > self._file_bytes:
            raise WorkspaceError(f"{path} is larger than {self._file_bytes} bytes")
        return content.decode("utf-8", "replace")

    def write(self, path: str, text: str) -> int:
        """Put `text` into a file, whole or not at all; folders are made. The bytes written."""
        parts = self._split(path)
        content = text.encode("utf-8", "surrogatepass")
        if len(content) > self._file_bytes:
            raise WorkspaceError(f"a file may have at most {self._file_bytes} bytes")
        with _convert_errors(path), self._open_folder(parts[:-1], make=True) as folder:
            with suppress(FileNotFoundError):
                found = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
                if not stat.S_ISREG(found.st_mode):
                    raise WorkspaceError(f"{path} is not a file")
            _replace(folder, parts[-1], content)
        return len(content)

    def names(self, path: str = ".") -> list[str]:
        """What lies in a folder, sorted; folders end with a slash, symbolic links with an @."""
        with (
            _convert_errors(path),
            self._open_folder(self._split(path, allow_root=True)) as folder,
            os.scandir(folder) as entries,
        ):
            found = [_name_entry(entry) for entry in entries]
        return sorted(found)[:ENTRIES_MAX]

    def _split(self, path: str, *, allow_root: bool = False) -> list[str]:
        parts = [part for part in PurePosixPath(path.strip() or ".").parts if part != "/"]
        if ".." in parts or "\0" in path:
            raise WorkspaceError("a path stays inside the workspace: no `..`")
        if len(parts) > DEPTH_MAX:
            raise WorkspaceError(f"a path has at most {DEPTH_MAX} parts")
        if not (parts or allow_root):
            raise WorkspaceError("a path names a file")
        return parts

    @contextmanager
    def _open_folder(self, parts: list[str], *, make: bool = False) -> Iterator[int]:
        descriptor = os.open(self._root, _FOLDER)
        try:
            for part in parts:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=descriptor)
                below = os.open(part, _FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)


@contextmanager
def _convert_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WorkspaceError(f"{path}: {os.strerror(error.errno or 0)}") from error


def _replace(folder: int, name: str, content: bytes) -> None:
    temporary = f".{secrets.token_hex(8)}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o644, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _name_entry(entry: "os.DirEntry[str]") -> str:
    if entry.is_symlink():
        return f"{entry.name}@"
    return f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name


BLOCK_BYTES = 512


@dataclass(frozen=True)
class AgentDisk:
    """The folders below `root`, together at most `bytes_max`."""

    root: Path
    bytes_max: int

    def has_room(self, wanted_bytes: int = 1) -> bool:
        """Whether that much more still fits."""
        return self.used_bytes() + wanted_bytes <= self.bytes_max

    async def is_full(self) -> bool:
        """As `has_room`, for those with an event loop to keep turning."""
        return not await asyncio.to_thread(self.has_room)

    def used_bytes(self) -> int:
        """What files and folders take. No link is followed, and counting ends once it is full."""
        used, folders = 0, [str(self.root)]
        while folders and used < self.bytes_max:
            # Others add and remove meanwhile.
            with suppress(OSError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    with suppress(OSError):
                        used += entry.stat(follow_symlinks=False).st_blocks * BLOCK_BYTES
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
        return used

    def full_text(self) -> str:
        """What the model reads where there is no room."""
        return f"Your disk is full ({self.bytes_max} bytes): remove files you do not need."
