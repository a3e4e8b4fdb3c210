"""The WSGI entry point of web processes: Django REST framework is loaded lean before all views.

The framework imports whatever it finds installed: `requests` for its test client, `pygments` for
pages that show code, `yaml` for a renderer of descriptions. And drf-spectacular imports the test
client itself, with all of Django's, for one factory. None of it serves a request here, and it is
9 MB in each web process.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import django

from gateway.server.front import FrontDoor

_FOR_OTHERS: Final = ("requests", "pygments", "yaml")
_TESTS: Final = "rest_framework.test"


def load_rest_framework() -> None:
    """Import it before anybody else does. What is loaded already stays; what is left out here can
    still be imported by those who use it. Needs Django to be set up."""
    with _replace_modules(dict.fromkeys(_FOR_OTHERS)):
        import_module("rest_framework.compat")

    def make_factory(*args: object, **options: object) -> Any:
        """What drf-spectacular makes a request with when it writes the description."""
        return import_module(_TESTS).APIRequestFactory(*args, **options)

    late = ModuleType(_TESTS)
    late.__dict__["APIRequestFactory"] = make_factory
    with _replace_modules({_TESTS: late}):
        import_module("drf_spectacular.plumbing")


@contextmanager
def _replace_modules(modules: dict[str, ModuleType | None]) -> Iterator[None]:
    """Have these in the place of modules that nobody has imported; None: there is no such one."""
    absent = {name: module for name, module in modules.items() if name not in sys.modules}
    # Python itself takes None here for a module that cannot be found; the stubs do not.
    sys.modules.update(absent)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
django.setup(set_prefix=False)
load_rest_framework()

application = FrontDoor()
