"""Django's own checks: every model change has its migration, and production settings are clean."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
# The checks, which take longest, are the other command's.
MIGRATIONS = ("makemigrations", "--check", "--dry-run", "--skip-checks")
DEPLOYMENT = ("check", "--deploy", "--fail-level", "WARNING")
PRODUCTION = {
    "GATEWAY_ENV": "production",
    "ALLOWED_HOSTS": "gateway.example",
    "SECRET_KEY": "only-for-this-check-" + os.urandom(32).hex(),
    "VAULT_MASTER_KEY": "only-for-this-check-" + os.urandom(16).hex(),
    "ROUTER_USER_HASH_SECRET": "only-for-this-check-" + os.urandom(16).hex(),
    "DATABASE_URL": "postgresql://gateway@localhost/gateway",
    "REDIS_URL": "redis://localhost/0",
    "TRUSTED_PROXIES": "127.0.0.1",
}


def manage(home: str, arguments: tuple[str, ...], settings: dict[str, str]) -> int:
    """A manage.py command with nothing in its environment but these settings."""
    environment = {"PATH": os.environ["PATH"], "GATEWAY_HOME": home} | settings
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=PROJECT, env=environment, check=False)  # noqa: S603 - Ours.
    return done.returncode


def main() -> int:
    with tempfile.TemporaryDirectory() as home:
        statuses = [manage(home, MIGRATIONS, {}), manage(home, DEPLOYMENT, PRODUCTION)]
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main())
