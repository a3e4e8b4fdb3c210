"""kombu's Redis transport, for workers that outlive their broker."""

from typing import Final

from kombu.transport import TRANSPORT_ALIASES, redis


class Channel(redis.Channel):
    def close(self) -> None:
        """Close also where the broker has died.

        kombu 5.7 gives up at once if it still waits for a message then, and Celery, which closes
        again after the channel's address is forgotten, dies of an `AttributeError`.
        """
        try:
            super().close()
        except redis.Transport.connection_errors:
            super().close()


class Transport(redis.Transport):
    Channel = Channel


_NAME: Final = f"{__name__}:{Transport.__qualname__}"


def register() -> None:
    """Have every `redis` and `rediss` URL of this process use it."""
    TRANSPORT_ALIASES.update(redis=_NAME, rediss=_NAME)
