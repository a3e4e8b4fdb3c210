"""The interface behind which interns run. No driver knows a row.

A runtime is known by its intern's id, and by the id of the boot that began it. At most one of an
intern runs. All calls may be repeated: what was done already is fine.
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final, Literal, NotRequired, Protocol
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string
from typing_extensions import TypedDict

from gateway.http.jsonio import JsonObject
from gateway.outbound.exchange import AbortHandle
from interns.runtime.tunnel import Tunnel

# Of an agent's log at once, however long its lines are.
LOG_BYTES_READ: Final = 262_144
ApprovalMode = Literal["self-drive", "manual"]
QuestionKind = Literal["permission", "elicitation"]


class RuntimeFailed(Exception):
    """A driver could not do what it was asked to. `code` is a failure code of the API."""

    code = "runtime_start_failed"


class ImageUnavailable(RuntimeFailed):
    code = "image_unavailable"


class StartFailed(RuntimeFailed):
    code = "runtime_start_failed"


class StopFailed(RuntimeFailed):
    """It may still run."""

    code = "runtime_teardown_failed"


class ArchiveFailed(RuntimeFailed):
    """The disk could not be read whole. A missing disk is one."""

    code = "workspace_archive_failed"


class NoDisk(ArchiveFailed):
    """There is none, and perhaps there never was one."""

    def __init__(self) -> None:
        super().__init__("there is no disk")


class ChatRefused(Exception):
    """A runtime refused its order, or ended a stream without its last event.

    `reason` is the API's: `busy`, `intern_unreachable`, `intern_rejected`, `stream_severed`,
    `timeout`, `turn_failed`, `interaction_unknown`, `interaction_not_pending`, `run_ended`,
    `attachment_failed`, `bad_request` (an answer that does not fit). `status` is the HTTP status
    where a reason has two. It is 410 where a run produced more than is retained, 503 where a
    runtime is busy with something else than turns.
    """

    def __init__(
        self,
        reason: str,
        message: str = "",
        *,
        retryable: bool = False,
        status: int | None = None,
    ) -> None:
        super().__init__(message or reason)
        self.reason = reason
        self.retryable = retryable
        self.status = status


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """Where a runtime listens for HTTP. It is a Unix socket's path, a host and a port, or a way
    through a web process of its own machine."""

    socket_path: Path | None = None
    host: str = ""
    port: int = 0
    tunnel: Tunnel | None = None


@dataclass(frozen=True, slots=True)
class AgentAccess:
    """The address of a runtime, and the token that it wants."""

    address: AgentAddress
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class BootPlan:
    """What a runtime boots with. `model` None is the workspace's default. `api_key` is the intern's
    own, `gateway_url` ends in `/api/v1`."""

    intern_id: UUID
    boot_id: UUID
    name: str
    hostname: str
    instructions: str | None
    model: str | None
    api_key: str = field(repr=False)
    gateway_url: str = ""


@dataclass(frozen=True, slots=True)
class Runtime:
    """One that a driver runs. `facts` is JSON for operators, such as a pid; no secrets."""

    intern_id: UUID
    boot_id: UUID | None
    facts: JsonObject


@dataclass(frozen=True, slots=True)
class RuntimeHealth:
    """What a probe found. `exited` is certain: there is no such runtime any more. `was_fenced` says
    that it had to stop because this machine could not tell that it was alive. `was_stopped` says
    that somebody ended it, as all are ended when the gateway stops. `is_unknown` says that nobody
    can tell, which says nothing against the runtime. `budget_ended` says that its last model call
    was refused because its key's limit is used up."""

    ok: bool
    exited: bool = False
    detail: str = ""
    budget_ended: bool = False
    was_fenced: bool = False
    was_stopped: bool = False
    is_unknown: bool = False


# --- Chat -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TurnOrder:
    """A prompt. `run_id` is the caller's name for the run that it begins. A question of it waits
    for `question_s`; of what it says while nobody reads, `retained_bytes` are kept. The run's model
    calls carry `traceparent`, "" where the turn has no trace."""

    session_id: str
    run_id: UUID
    text: str
    approval_mode: ApprovalMode = "self-drive"
    question_s: float = 300.0
    retained_bytes: int = 1_048_576
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """An answer to a question: a permission's option or `cancel`, or an elicitation's object
    `{"action": ..., "content": ...}`, as text."""

    run_id: UUID
    tool_call_id: str
    content: str


class SessionTurn(TypedDict):
    """What one of both said in a session; `tools` are those that the intern called with it."""

    role: Literal["user", "assistant"]
    text: str
    tools: list[str]


@dataclass(frozen=True, slots=True)
class ModelNameEvent:
    """The runtime's own name for its model; before the first piece, where it is known."""

    model: str


@dataclass(frozen=True, slots=True)
class TextEvent:
    """A piece of the answer or of the reasoning."""

    text: str
    reasoning: bool = False


@dataclass(frozen=True, slots=True)
class QuestionEvent:
    """The run waits for an answer. `arguments` is the JSON object of
    `router.provide_input` (docs/reference/interns-chat.md)."""

    tool_call_id: str
    kind: QuestionKind
    arguments: JsonObject


class InternCachedTokens(TypedDict):
    cached_tokens: int


class InternUsage(TypedDict):
    """What a run used, as callers see it."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cost: NotRequired[float]
    prompt_tokens_details: NotRequired[InternCachedTokens]


@dataclass(frozen=True, slots=True)
class EndEvent:
    """The run is over. `reason` is "" for a good end, else the API's: `turn_failed`, `run_ended`,
    `client_closed_request`, `timeout`."""

    reason: str = ""
    message: str = ""
    retryable: bool = False
    usage: InternUsage | None = None


RunEvent = ModelNameEvent | TextEvent | QuestionEvent | EndEvent


class RunStream(Protocol):
    """A run's events. The last one is a `Question` or an `Ended`; a stream that ends before raises
    `ChatRefused`: `stream_severed`, or `timeout` past its deadline. Closing it before the last
    event cancels the run, after a `Question` it leaves the run alone."""

    def read(self, wait_s: float) -> list[RunEvent]:
        """The events that came; none where nothing did within `wait_s`. Raises `ChatRefused`."""

    def close(self) -> None: ...


class Agents(Protocol):
    """Runtimes to talk to, here or on another machine. Web processes call it, so waits are
    cooperative. `wait_s` bounds a wait in seconds; a `deadline` is a moment of `time.monotonic`."""

    def log_tail(self, intern_id: UUID, *, lines: int = 100) -> list[str]:
        """The last lines the runtime wrote, the newest last. Never raises."""

    def find_agent(self, intern_id: UUID) -> AgentAccess | None:
        """Where the runtime is talked to, None where none is known."""

    def turn(
        self, intern_id: UUID, turn: TurnOrder, *, deadline: float, abort: AbortHandle
    ) -> RunStream:
        """Begin a run. Raises `ChatRefused`."""

    def answer(
        self, intern_id: UUID, reply: QuestionAnswer, *, deadline: float, abort: AbortHandle
    ) -> RunStream:
        """Answer a run's question and go on reading it. Raises `ChatRefused`."""

    def read_conversation(
        self, intern_id: UUID, session_id: str, *, wait_s: float = 2.0
    ) -> list[SessionTurn] | None:
        """What was said in a session, the oldest first; None where the runtime does not say. Never
        raises."""

    def steer(self, intern_id: UUID, run_id: UUID, text: str, *, wait_s: float = 10.0) -> None:
        """Say more to the run that is under way. Raises `ChatRefused`: `run_ended`, ..."""

    def cancel(self, intern_id: UUID, run_id: UUID, *, wait_s: float = 2.0) -> bool:
        """End the run, and its tools. Whether the runtime says that it is over. Never raises."""


class Driver(Agents, Protocol):
    """Where this machine's interns run. Celery workers call what is added here."""

    name: str

    def start(self, plan: BootPlan) -> Runtime:
        """Boot on the intern's disk, which is made where there is none. A runtime of the same
        `boot_id` is adopted, one of another boot stopped first. It need not be healthy yet.
        Raises `RuntimeFailed`."""

    def stop(self, intern_id: UUID, *, boot_id: UUID | None = None, wait_s: float = 8.0) -> bool:
        """Stop the runtime (of that boot only, where one is named), by force after `wait_s`; the
        disk stays. Whether there was one. Raises `StopFailed`."""

    def destroy(self, intern_id: UUID) -> None:
        """Stop it, and remove its disk and whatever else is its own. Raises `StopFailed`."""

    def has_disk(self, intern_id: UUID) -> bool:
        """Whether the intern has a disk here. Raises `RuntimeFailed` where nobody can tell."""

    def archive(self, intern_id: UUID, into: BinaryIO) -> int:
        """Write the disk as a deterministic tar, and return how many files are in it. The runtime
        is stopped. Raises `ArchiveFailed`."""

    def restore(self, intern_id: UUID, archive: BinaryIO) -> int:
        """Put an archive's files on the disk of an intern without a runtime. Returns how many.
        Raises `ArchiveFailed`."""

    def health(
        self, intern_id: UUID, *, boot_id: UUID | None = None, wait_s: float = 2.0
    ) -> RuntimeHealth:
        """Ask the runtime how it is. Never raises."""

    def runtimes(self) -> list[Runtime]:
        """All that run here, also those whose intern is gone. Raises `RuntimeFailed`."""


BUILT_IN = {
    "process": "interns.runtime.process.ProcessDriver",
    "container": "interns.runtime.container.ContainerDriver",
    "kubernetes": "interns.runtime.cluster.driver.KubernetesDriver",
}


@cache
def _load_driver(path: str) -> Driver:
    driver: Driver = import_string(path)()
    return driver


def current_driver() -> Driver:
    """The driver that `INTERN_RUNTIME` names: `process`, `container`, `kubernetes`, or an
    import path."""
    name: str = settings.INTERN_RUNTIME
    return _load_driver(BUILT_IN.get(name, name))
