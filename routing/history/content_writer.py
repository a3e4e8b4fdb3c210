"""Storing the contents of generations: one queue per process, and one thread that works on it.

No answer is refused or charged differently because of a failure here. What does not fit into the
queue, or finds no database, is dropped and counted.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from gateway.database.db import DATABASE_GONE, Lane, run_queries, under_gevent
from routing.history.content_draft import ContentDraft
from routing.history.contents import build_sealed_row, store
from routing.history.models import GenerationContent
from routing.ledger.tickets import new_event

log = logging.getLogger("routing.history")

_T = TypeVar("_T")
QUEUE_MAX: Final = 500
QUEUE_CHARS_MAX: Final = 67_108_864
_BATCH_MAX: Final = 20
_LOG_EVERY_S: Final = 10.0
# How long an answer waits for its content to be stored; mostly that ends before the charge.
_WAIT_S: Final = 0.25


class ContentWriter:
    """`queue` a draft once its generation is being settled. Safe from any greenlet."""

    def __init__(
        self, *, write: Callable[[Sequence[GenerationContent]], None] | None = None
    ) -> None:
        self._write = write or (lambda rows: run_queries(Lane.OPERATOR, lambda: store(rows)))
        self._queue: deque[tuple[ContentDraft, int]] = deque()
        self._chars = 0
        self._busy = self._stopping = False
        self._work = new_event()
        self._thread: threading.Thread | None = None
        self.dropped = 0
        self._logged_at = 0.0

    def queue(self, draft: ContentDraft) -> None:
        """Queue a draft that does not change any more."""
        chars = _count_chars(draft)
        if len(self._queue) >= QUEUE_MAX or self._chars + chars > QUEUE_CHARS_MAX:
            self._drop([draft], "the queue is full")
            return
        if not under_gevent():
            # Without gevent no thread is started.
            self._carry_out([draft])
            return
        draft.stored = new_event()
        self._chars += chars
        self._queue.append((draft, chars))
        self._work.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="contents", daemon=True)
            self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Write what is queued, for `timeout_s` at most; the next draft starts a new thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping = True
            self._work.set()
            thread.join(timeout_s)
            self._stopping = False

    def _run(self) -> None:
        while self._queue or not self._stopping:
            if not self._queue:
                self._work.wait()
                self._work.clear()
            batch: list[ContentDraft] = []
            while self._queue and len(batch) < _BATCH_MAX:
                draft, chars = self._queue.popleft()
                self._chars -= chars
                batch.append(draft)
            if batch:
                self._carry_out(batch)

    def _carry_out(self, batch: list[ContentDraft]) -> None:
        try:
            rows = run_off_loop(lambda: [build_sealed_row(draft) for draft in batch])
            self._write(rows)
        except DATABASE_GONE as error:
            self._drop(batch, str(error))
        except Exception:  # Whatever it was, the next batch may be stored.
            log.exception("%d contents were not stored", len(batch))
            self.dropped += len(batch)
        finally:
            for draft in batch:
                if draft.stored is not None:
                    draft.stored.set()

    def _drop(self, batch: Sequence[ContentDraft], why: str) -> None:
        self.dropped += len(batch)
        now = time.monotonic()
        if now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            log.warning("Contents are not stored, %d so far: %s", self.dropped, why)


def run_off_loop(work: Callable[[], _T]) -> _T:
    """Run CPU-bound `work` in a native thread, so that the event loop goes on."""
    if not under_gevent():
        return work()
    result, error = _pool().apply(_capture_error, (work,))
    if error is not None:
        raise error
    value: _T = result
    return value


@cache
def _pool() -> Any:
    from gevent.threadpool import ThreadPool

    return ThreadPool(1)


def _capture_error(work: Callable[[], _T]) -> tuple[_T | None, BaseException | None]:
    """Return an error as a value: gevent prints what a pool's thread raises, with arguments."""
    try:
        return work(), None
    except BaseException as error:  # noqa: BLE001 - It is raised again in the greenlet that waits.
        return None, error


def _count_chars(draft: ContentDraft) -> int:
    """Estimate the characters a draft holds; media are large texts of their own."""
    total = sum(map(len, draft.text)) + sum(map(len, draft.reasoning))
    for message in draft.messages:
        content = message.get("content")
        if isinstance(content, str):
            total += len(content)
        elif content:
            # The texts of each part, one level deep: `{"image_url": {"url": …}}`.
            values: list[Any] = [value for part in content for value in part.values()]
            inner = [each for value in values if isinstance(value, dict) for each in value.values()]
            total += sum(len(text) for text in values + inner if isinstance(text, str))
    return total


content_writer: Final = ContentWriter()


def queue_content(draft: ContentDraft | None) -> None:
    """Queue the content of a request that is being settled, where it is logged."""
    if draft is not None and draft.is_logged:
        content_writer.queue(draft)


def wait_until_stored(draft: ContentDraft | None) -> None:
    """Wait until a queued content is stored, so that the caller's next request finds it."""
    if draft is not None and draft.stored is not None:
        draft.stored.wait(_WAIT_S)
