"""The public name of an intern (management reference 6.2)."""

import secrets
import string
from typing import Final

from django.conf import settings
from django.db import IntegrityError, transaction

from interns import leases
from interns.leases import InternLease
from interns.models import Intern

_BASE36: Final = string.digits + string.ascii_lowercase
_SUFFIX_CHARS: Final = 6
_TRIES: Final = 5


class HostnameUnavailable(Exception):
    """All that were tried are taken."""


def assign_hostname(intern: Intern, lease: InternLease) -> str:
    """The name that it has, else a new one, written to its row. Raises `LeaseLost`."""
    if intern.hostname is not None:
        return intern.hostname
    for name in _candidates(intern.name):
        try:
            with transaction.atomic():
                leases.write(lease, hostname=name)
        except IntegrityError:
            continue
        return name
    raise HostnameUnavailable


def _candidates(name: str) -> list[str]:
    suffixes = ["".join(secrets.choice(_BASE36) for _ in range(_SUFFIX_CHARS)) for _ in range(5)]
    return [f"{name}.{settings.INTERN_DOMAIN}"] + [
        f"{name}-{suffix}.{settings.INTERN_DOMAIN}" for suffix in suffixes[:_TRIES]
    ]
