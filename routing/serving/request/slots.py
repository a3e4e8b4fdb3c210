"""A bound on inference requests in progress in one process."""

from gateway.http.errors import Unavailable
from gateway.live_settings import settings


class Slot:
    """One place, given back once. A stream keeps it past its view's return."""

    def __init__(self, slots: "Slots") -> None:
        self._slots: Slots | None = slots
        self._kept = False

    def keep(self) -> None:
        self._kept = True

    def release(self) -> None:
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.taken -= 1

    def release_unless_kept(self) -> None:
        if not self._kept:
            self.release()


class Slots:
    """Greenlets share these without a lock: nothing switches between test and count."""

    def __init__(self) -> None:
        self.taken = 0

    def take(self) -> Slot:
        """A free place. Raises `Unavailable` (503, Retry-After) when there is none."""
        self.refuse_if_full()
        self.taken += 1
        return Slot(self)

    def refuse_if_full(self) -> None:
        """Raises `Unavailable` when `take` would: a refusal costs least before anything is read."""
        if self.taken >= settings.ROUTER_MAX_CONCURRENCY:
            raise Unavailable("Too many requests in progress")


slots = Slots()
