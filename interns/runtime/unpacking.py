"""Putting an archive's files into a directory, where nothing of the archive is trusted.

Nothing is written outside the directory or over what is there. Links are made last, so that no file
is written through one, and only those that stay inside; devices and the like are left out.
"""

import os
import shutil
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class UnpackResult:
    """How many regular files were written, and the names of what was left out."""

    files: int = 0
    skipped: list[str] = field(default_factory=list)


def unpack(archive: BinaryIO, folder: Path) -> UnpackResult:
    """Write the archive's files below the folder, which exists.

    Raises `OSError`, also for a file that is there already, and `ValueError` for no archive.
    """
    done = UnpackResult()
    links: list[tuple[Path, str]] = []
    try:
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            for member in tar:
                _unpack_member(tar, member, folder, done, links)
    except tarfile.TarError as error:
        raise ValueError(f"not a whole tar: {error}") from error
    for place, target in links:
        _make_link(place, target, folder, done)
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


def _make_link(place: Path, target: str, folder: Path, done: UnpackResult) -> None:
    """A link that leads out of the folder would let whoever follows it out, too."""
    inside = Path(os.path.normpath(place.parent / target))
    if target.startswith("/") or not inside.is_relative_to(os.path.normpath(folder)):
        done.skipped.append(str(place.relative_to(folder)))
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)
