"""How full an intern's disk is. Nothing keeps a process from filling a shared one, so it is looked
at before something is written and while a command runs."""

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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
        """What the model is told where there is no room."""
        return f"Your disk is full ({self.bytes_max} bytes): remove files you do not need."
