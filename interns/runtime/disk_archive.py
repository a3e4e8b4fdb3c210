"""Archives of interns' disks: the same files give the same bytes, and unpacking trusts none.

Members are sorted by their names as bytes, owners and times zeroed, modes 0755 and 0644, without
compression. Symbolic links are kept and never followed; a file with several names is stored under
each; sockets, pipes and devices are left out. Unpacking writes nothing outside the directory or
over what is there: links are made last, so that no file is written through one.
"""

import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

_PIECE_BYTES: Final = 1_048_576
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_SKIPPED_TYPES = (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)


def pack(folder: Path, into: BinaryIO) -> int:
    """Write the tar of what is in the folder; how many regular files there were.

    Raises `OSError`, also for a file that changes while it is read.
    """
    root = os.open(folder, _READ | os.O_DIRECTORY)
    try:
        with _open_writer(into) as tar:
            return sum(
                _add_from_disk(tar, root, path) for path in sorted(_walk(root, ""), key=os.fsencode)
            )
    finally:
        os.close(root)


def repack(tar: BinaryIO, into: BinaryIO) -> int:
    """The same from a tar that somebody else made, such as a container engine. `tar` is seekable.

    Raises `OSError`; members are only copied, so nothing of them is trusted.
    """
    try:
        with tarfile.open(fileobj=tar, mode="r:") as source, _open_writer(into) as target:
            members = {}
            for each in source:
                parts = [part for part in each.name.split("/") if part not in ("", ".")]
                members["/".join(parts)] = each
            members.pop("", None)
            named = sorted(members.items(), key=lambda item: os.fsencode(item[0]))
            return sum(_copy_member(target, source, name, member) for name, member in named)
    except tarfile.TarError as error:
        raise OSError(f"not a whole tar: {error}") from error


def _open_writer(into: BinaryIO) -> tarfile.TarFile:
    return tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8")


def _walk(folder: int, prefix: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        yield prefix + name
        if is_folder:
            below = _open_readable(name, folder, os.O_DIRECTORY, 0o700)
            try:
                yield from _walk(below, f"{prefix}{name}/")
            finally:
                os.close(below)


def _open_readable(path: str, folder: int, more: int, mode: int) -> int:
    """Open it for reading; its owner may have forbidden that to itself."""
    try:
        return os.open(path, _READ | more, dir_fd=folder)
    except PermissionError:
        # Opened without a right to read, so that no link is followed in changing the mode.
        handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            Path(f"/proc/self/fd/{handle}").chmod(mode)
        finally:
            os.close(handle)
        return os.open(path, _READ | more, dir_fd=folder)


def _add_from_disk(tar: tarfile.TarFile, root: int, path: str) -> int:
    """Add one; 1 for a regular file."""
    found = os.stat(path, dir_fd=root, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        tar.addfile(_build_entry(path, tarfile.DIRTYPE, 0o755))
        return 0
    if stat.S_ISLNK(found.st_mode):
        tar.addfile(_build_link_entry(path, os.readlink(path, dir_fd=root)))
        return 0
    if not stat.S_ISREG(found.st_mode):
        return 0
    with os.fdopen(_open_readable(path, root, 0, 0o600), "rb") as content:
        info = _build_entry(path, tarfile.REGTYPE, 0o755 if found.st_mode & 0o111 else 0o644)
        info.size = os.fstat(content.fileno()).st_size
        tar.addfile(info, content)
        if content.read(1):
            raise OSError(f"{path!r} grew while it was read")
    return 1


def _copy_member(
    target: tarfile.TarFile, source: tarfile.TarFile, name: str, member: tarfile.TarInfo
) -> int:
    if member.isdir():
        target.addfile(_build_entry(name, tarfile.DIRTYPE, 0o755))
        return 0
    if member.issym():
        target.addfile(_build_link_entry(name, member.linkname))
        return 0
    # The other names of a file are read as that file.
    content = None if member.type in _SKIPPED_TYPES else source.extractfile(member)
    if content is None:
        return 0
    size = content.seek(0, os.SEEK_END)
    content.seek(0)
    info = _build_entry(name, tarfile.REGTYPE, 0o755 if member.mode & 0o111 else 0o644)
    info.size = size
    target.addfile(info, content)
    return 1


def _build_entry(path: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    """A new one has no owner and no time."""
    info = tarfile.TarInfo(path)
    info.type, info.mode = kind, mode
    return info


def _build_link_entry(path: str, target: str) -> tarfile.TarInfo:
    info = _build_entry(path, tarfile.SYMTYPE, 0o777)
    info.linkname = target
    return info


_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class UnpackResult:
    """How many regular files were written, and the names of what was left out."""

    files: int = 0
    skipped: list[str] = field(default_factory=list)


def unpack(archive: BinaryIO, folder: Path) -> UnpackResult:
    """Write the archive's files below the folder, which exists. It is read once, from where it is.

    Raises `OSError`, also for a file that is there already, and `ValueError` for no archive.
    """
    done = UnpackResult()
    links: list[tuple[Path, str]] = []
    try:
        with tarfile.open(fileobj=archive, mode="r|", bufsize=_PIECE_BYTES) as tar:
            for member in tar:
                _unpack_member(tar, member, folder, done, links)
    except tarfile.TarError as error:
        raise ValueError(f"not a whole tar: {error}") from error
    for place, target in links:
        # A link that leads out of the folder would let whoever follows it out, too.
        inside = Path(os.path.normpath(place.parent / target))
        if target.startswith("/") or not inside.is_relative_to(os.path.normpath(folder)):
            done.skipped.append(str(place.relative_to(folder)))
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    return done


def _unpack_member(
    tar: tarfile.TarFile,
    member: tarfile.TarInfo,
    folder: Path,
    done: UnpackResult,
    links: list[tuple[Path, str]],
) -> None:
    place = _find_target(member.name, folder)
    if place is None:
        done.skipped.append(member.name)
    elif member.isdir():
        place.mkdir(parents=True, exist_ok=True)
    elif member.issym():
        links.append((place, member.linkname))
    elif member.isreg() and (content := tar.extractfile(member)) is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o755 if member.mode & 0o111 else 0o644
        with os.fdopen(os.open(place, _NEW, mode), "wb") as file:
            shutil.copyfileobj(content, file)
        done.files += 1
    else:
        done.skipped.append(member.name)


def _find_target(name: str, folder: Path) -> Path | None:
    """Where a member goes; None for a name that leads elsewhere."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or not name.strip("./"):
        return None
    return folder.joinpath(*(part for part in parts if part not in ("", ".")))
