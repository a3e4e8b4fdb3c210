"""Django's settings for code that every request runs.

Each look at `django.conf.settings` runs a method of its proxy, and a request takes some twenty of
them. Here a value is a plain attribute once it has been looked at; a test that overrides it is
heard of.
"""

from typing import TYPE_CHECKING, Any, cast

from django.conf import settings as _settings
from django.core.signals import setting_changed

if TYPE_CHECKING:
    from django.conf import LazySettings


class _Live:
    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(_settings, name)
        return value


_live = _Live()
settings = cast("LazySettings", _live)


def _forget(**_: object) -> None:
    _live.__dict__.clear()


setting_changed.connect(_forget)
