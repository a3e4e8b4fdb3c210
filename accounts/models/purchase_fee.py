"""What was kept of payments as a fee."""

from django.db import models
from django.db.models import F, Q

from accounts.models.ledger import LedgerEntry


class PurchaseFee(models.Model):
    """The fee of one purchase: `paid_nano` came in, `fee_nano` was kept, the entry has the rest.

    Purchases without a fee have no row.
    """

    entry = models.OneToOneField(
        LedgerEntry, on_delete=models.PROTECT, primary_key=True, related_name="purchase_fee"
    )
    paid_nano = models.BigIntegerField()
    fee_nano = models.BigIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="accounts_purchasefee_below_the_payment",
                condition=Q(fee_nano__gt=0, paid_nano__gt=F("fee_nano")),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.fee_nano} of {self.paid_nano}"
