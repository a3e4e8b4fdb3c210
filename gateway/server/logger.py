"""gunicorn's own log lines."""

import logging

from gunicorn.glogging import Logger as GunicornLogger


class Logger(GunicornLogger):
    """Leaves format and place to the root logger. Births, deaths and reloads are told by the hooks
    of `gateway/gunicorn.conf.py`, so gunicorn adds what went wrong."""

    def setup(self, cfg: object) -> None:
        level = logging.getLogger("gunicorn").level
        super().setup(cfg)  # type: ignore[no-untyped-call]  # gunicorn is untyped.
        self.error_log.handlers.clear()
        self.error_log.propagate = True
        self.error_log.setLevel(level)
