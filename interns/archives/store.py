"""The store of archives: names and URIs, saving, reading back, and a time limit for it."""

import hashlib
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar, cast
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.core.files import File
from django.core.files.storage import FileSystemStorage, Storage, storages

PIECE_BYTES: Final = 1024 * 1024


class UnknownPlace(ValueError):
    """A URI that does not lead into the store of this gateway."""


class _MovableFile(File):  # type: ignore[type-arg]  # Django itself does not let it be subscripted.
    """A file that a local store may move into its place rather than copy."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        super().__init__(cast(Any, file), name=path)

    def temporary_file_path(self) -> str:
        return str(self.name)


def store_errors() -> tuple[type[Exception], ...]:
    """What the store may fail with."""
    if not settings.INTERN_ARCHIVE_STORE:
        return (OSError,)
    from botocore.exceptions import BotoCoreError, ClientError

    return (OSError, BotoCoreError, ClientError)


def read_errors() -> tuple[type[Exception], ...]:
    """What reading back may fail with."""
    return (*store_errors(), UnknownPlace)


def is_shared() -> bool:
    """Whether other machines can fetch what this one keeps."""
    return bool(settings.INTERN_ARCHIVE_STORE)


def archive_storage() -> Storage:
    return storages["intern-archives"]


def save_archive(name: str, file: BinaryIO, path: str) -> str:
    """Put the file, which lies at `path`, into the store under this name, in place of one that is
    there; its URI. The other one is there until this one is, whoever is late."""
    saved = archive_storage().save(name, _MovableFile(file, path))
    place: str = settings.INTERN_ARCHIVE_STORE
    return f"{place}/{saved}" if place else (Path(_local_folder()) / saved).as_uri()


def parse_name(uri: str) -> str:
    """What the store calls it. Raises `UnknownPlace`."""
    place: str = settings.INTERN_ARCHIVE_STORE
    beginning = f"{place}/" if place else Path(_local_folder()).as_uri() + "/"
    if not uri.startswith(beginning):
        raise UnknownPlace(uri)
    name = uri.removeprefix(beginning)
    return name if place else unquote(name)


def open_archive(uri: str) -> BinaryIO:
    """The archive for reading. Raises `OSError`, `UnknownPlace`.

    A `file:` URI of another folder is one that an operator added by hand.
    """
    parts = urlsplit(uri)
    if parts.scheme == "file" and not parts.netloc:
        return Path(unquote(parts.path)).open("rb")
    return cast(BinaryIO, archive_storage().open(parse_name(uri)))


def compute_digest(file: BinaryIO, alive: Callable[[], None] = lambda: None) -> tuple[str, int]:
    """The SHA-256 in hexadecimal and the bytes of what is left to read; `alive` is called between
    two pieces."""
    hash_, size = hashlib.sha256(), 0
    while piece := file.read(PIECE_BYTES):
        hash_.update(piece)
        size += len(piece)
        alive()
    return hash_.hexdigest(), size


def fetch_archive(uri: str, into: BinaryIO) -> tuple[str, int]:
    """Copy what is kept; its SHA-256 in hexadecimal and its bytes. Raises as `open_archive`."""
    hash_, size = hashlib.sha256(), 0
    with open_archive(uri) as kept:
        while piece := kept.read(PIECE_BYTES):
            hash_.update(piece)
            size += len(piece)
            into.write(piece)
    return hash_.hexdigest(), size


def _local_folder() -> str:
    return str(settings.STORAGES["intern-archives"]["OPTIONS"]["location"])


class LocalArchives(FileSystemStorage):
    """Files that only the gateway's own user reads, on the disk itself before anybody hears of
    them.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(file_permissions_mode=0o600, directory_permissions_mode=0o700, **options)

    def _save(self, name: str, content: object) -> str:
        saved: str = super()._save(name, content)  # type: ignore[misc]  # The stubs leave it out; Django names it for subclasses.
        path = Path(self.path(saved))
        for each, flags in ((path, os.O_RDONLY), (path.parent, os.O_RDONLY | os.O_DIRECTORY)):
            handle = os.open(each, flags)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        return saved


Result = TypeVar("Result")
LOOK_S: Final = 1.0


class StoreTimedOut(TimeoutError):
    """Nothing is known of why."""


def run_with_limit(work: Callable[[], Result], limit_s: float, alive: Callable[[], None]) -> Result:
    """What `work` gives back, done in a thread of its own; `alive` is called now and then.

    Raises what `work` and `alive` raise, and `StoreTimedOut`. After that `work` may still go on, as
    nothing can end a thread that waits for a server. What it does late must do no harm.
    """
    until = time.monotonic() + limit_s
    future: Future[Result] = Future()
    threading.Thread(target=_carry_out, args=(future, work), daemon=True, name="archive").start()
    while True:
        left_s = until - time.monotonic()
        wait([future], timeout=max(0.0, min(left_s, LOOK_S)))
        if future.done():
            return future.result()
        if left_s <= 0:
            raise StoreTimedOut(f"the store took more than {limit_s:g} s")
        alive()


def _carry_out(future: Future[Result], work: Callable[[], Result]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - It is raised where it is waited for.
        future.set_exception(error)
