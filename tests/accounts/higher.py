"""Answers of the apps above accounts, replaced one by one."""

from typing import Any

from accounts.ports import HigherApps, higher_apps


class ReplacedApps:
    """The registered apps, with these functions instead of theirs."""

    def __init__(self, **functions: Any) -> None:
        self._functions = functions
        self._others: HigherApps = higher_apps()

    def __getattr__(self, name: str) -> Any:
        return self._functions[name] if name in self._functions else getattr(self._others, name)
