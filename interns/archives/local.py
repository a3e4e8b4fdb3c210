"""Archives in a folder of this machine."""

import os
from pathlib import Path
from typing import Any

from django.core.files.storage import FileSystemStorage


class LocalArchives(FileSystemStorage):
    """Files that only the gateway's own user reads, on the disk itself before anybody is told."""

    def __init__(self, **options: Any) -> None:
        super().__init__(file_permissions_mode=0o600, directory_permissions_mode=0o700, **options)

    def _save(self, name: str, content: Any) -> str:
        saved: str = super()._save(name, content)  # type: ignore[misc]  # The stubs leave it out; Django names it for subclasses.
        path = Path(self.path(saved))
        for each, flags in ((path, os.O_RDONLY), (path.parent, os.O_RDONLY | os.O_DIRECTORY)):
            handle = os.open(each, flags)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        return saved
