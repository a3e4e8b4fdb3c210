"""Who people and programs are at issuers elsewhere, what their claims give them here, and how often
somebody tried to sign in."""

from django.core.exceptions import ValidationError
from django.db import models

from accounts.models.account import Account, Membership, User, Workspace, WorkspaceMembership
from accounts.models.key import ApiKey


class PersonIdentity(models.Model):
    """A person as a provider names it: `subject` is its own id there, for life."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=400)
    subject = models.CharField(max_length=255)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "identity"
        verbose_name_plural = "identities"
        constraints = [
            models.UniqueConstraint(
                name="accounts_personidentity_once", fields=["issuer", "subject"]
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"


class ClaimMapping(models.Model):
    """People whose claim has the value are in the account, and in the workspace where one is named.

    `provider` is the id of one of the settings, empty for the first of them. `claim` may name a
    list, of which one value is enough; `*` stands for every value.
    """

    provider = models.CharField(
        max_length=100, blank=True, help_text="Id of a provider; empty for the first."
    )
    claim = models.CharField(max_length=100, default="groups")
    value = models.CharField(max_length=255, help_text="One value, or * for every one.")
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="claim_mappings")
    role = models.CharField(
        max_length=16, choices=Membership.Role.choices, default=Membership.Role.MEMBER
    )
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, related_name="+", null=True, blank=True
    )
    workspace_role = models.CharField(
        max_length=8,
        choices=WorkspaceMembership.Role.choices,
        default=WorkspaceMembership.Role.MEMBER,
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "claim mapping"

    def __str__(self) -> str:
        return f"{self.claim} {self.value} in {self.account}"

    def clean(self) -> None:
        if self.workspace is None:
            return
        if self.workspace.account_id != self.account_id:
            raise ValidationError("This workspace belongs to another account.")
        if self.workspace.is_default:
            raise ValidationError("Everybody of the account belongs to its default workspace.")


class TrustedIssuer(models.Model):
    """An issuer whose tokens an account takes in place of keys, such as a build service.

    Its keys stand at `jwks_url`, or where its discovery document says. `audience` is what tokens
    are made for.
    """

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="trusted_issuers")
    name = models.CharField(max_length=100)
    url = models.CharField(
        "issuer", max_length=400, help_text="As tokens name it in `iss`, to the last character."
    )
    jwks_url = models.CharField(
        "keys", max_length=400, blank=True, help_text="Empty: its discovery document says."
    )
    audience = models.CharField(max_length=200)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="accounts_trustedissuer_once",
                fields=["account", "url", "audience"],
            ),
        ]
        indexes = [models.Index(name="accounts_trustedissuer_url", fields=["url"])]

    def __str__(self) -> str:
        return f"{self.name} of {self.account}"


class Workload(models.Model):
    """Programs whose tokens have these claims, and the key whose limits hold for them.

    `conditions` has a pattern for each claim, all of which fit; `*` stands for any characters.
    Nobody has the string of the key: it was never kept. `tags` has a text for each name, or in
    braces the claim that has it.
    """

    issuer = models.ForeignKey(TrustedIssuer, on_delete=models.CASCADE, related_name="workloads")
    conditions = models.JSONField(default=dict)
    tags = models.JSONField(null=True, blank=True, default=None)
    key = models.OneToOneField(ApiKey, on_delete=models.PROTECT, related_name="workload")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.key.name} at {self.issuer}"


class SignInAttempts(models.Model):
    """Tries that have not succeeded, of one user, of one address, or of one user from one address.
    Also answers of identity providers, each of which is good once.

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
