"""How often somebody tried to sign in and was wrong."""

from django.db import models


class SignInAttempts(models.Model):
    """Tries that have not succeeded, of one user, of one address, or of one user from one address;
    and answers of identity providers, each of which is good once.

    Until `last_at` what is to be forgotten of `count` is.
    `subject` is a digest of which: what was typed as a name may be a password.
    """

    subject = models.CharField(max_length=64, primary_key=True)
    count = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField(db_index=True)
    blocked_until = models.DateTimeField(null=True)

    class Meta:
        verbose_name = verbose_name_plural = "sign-in attempts"

    def __str__(self) -> str:
        return f"{self.subject[:8]}: {self.count}"
