"""gunicorn's settings for the ceiling: the gateway's own, without its ledger and catalogue."""

from pathlib import Path
from runpy import run_path

_GATEWAY = run_path(str(Path(__file__).parents[2] / "gateway" / "gunicorn.conf.py"))
_HOOKS = {"post_worker_init", "worker_exit"}
globals().update({k: v for k, v in _GATEWAY.items() if k not in _HOOKS and not k.startswith("_")})

wsgi_app = "tests.load.ceiling:application"
