"""The settings that a runtime gets at boot, as JSON on its standard input.

`isolation` is "bubblewrap", "container" or "none". The agent listens on the inherited descriptor
`listen_fd`, or on the Unix socket `listen_path` that it makes itself.
"""

from dataclasses import dataclass, field
from pathlib import Path

from interns.agent.events import JsonObject

SHELL_ISOLATIONS = frozenset({"bubblewrap", "container"})


@dataclass(frozen=True, kw_only=True)
class AgentLimits:
    """Bounds of one runtime: bytes, seconds, counts."""

    file_bytes: int = 10_485_760
    output_bytes: int = 65_536
    shell_s: float = 120.0
    model_calls: int = 50
    processes: int = 256
    disk_bytes: int = 10_737_418_240


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """`gateway_socket` is the Unix socket of the gateway; `api_path` the path of its API there."""

    intern_id: str
    runtime_id: str
    name: str
    token: str
    instructions: str | None
    model: str
    isolation: str
    home: Path
    gateway_socket: str
    api_path: str
    listen_fd: int | None = None
    listen_path: str | None = None
    limits: AgentLimits = field(default_factory=AgentLimits)

    @property
    def workspace(self) -> Path:
        return self.home / "workspace"

    @property
    def sessions(self) -> Path:
        return self.home / "sessions"

    @property
    def has_shell(self) -> bool:
        """Commands run only where something keeps them from the host."""
        return self.isolation in SHELL_ISOLATIONS


def read_config(given: JsonObject) -> AgentConfig:
    """The configuration from its JSON form. Raises `TypeError` and `KeyError` on an odd one."""
    values = given | {"home": Path(given["home"]), "limits": AgentLimits(**given.get("limits", {}))}
    return AgentConfig(**values)
