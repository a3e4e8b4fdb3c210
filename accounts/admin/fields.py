"""Money in forms: people type USD, the books keep nano-USD."""

from typing import Any

from django import forms

from accounts.money import nano_of

_USD_MAX = 1_000_000_000


class UsdField(forms.DecimalField):
    """USD as typed, whole nano-USD (or None) once cleaned. Initial values are USD text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_value=_USD_MAX, max_digits=19, decimal_places=9, **options)

    def clean(self, value: Any) -> Any:
        usd = super().clean(value)
        return None if usd is None else nano_of(usd)
