"""What an intern's request to the outside can meet."""

from interns.errors import InternError


class TargetNotAllowed(InternError):
    status, reason = 403, "target_not_allowed"
    message = "This URL cannot be fetched"


class SecretNotReleased(InternError):
    status, reason = 403, "secret_not_released"
    message = "The secret is not bound to this host"


class SecretUnknown(InternError):
    status, reason = 404, "secret_unknown"
    message = "The intern has no such secret"


class VaultGone(InternError):
    status, reason = 404, "not_found"
    message = "The attached vault is gone, so the intern has no secrets"


class NotRunning(InternError):
    status, reason, retryable = 409, "intern_not_ready", True
    message = "This intern is not running."


class TooManyFetches(InternError):
    status, reason, retryable = 429, "rate_limited", True
    message = "Too many fetches. Please wait a moment."


class SiteUnreachable(InternError):
    status, reason, retryable = 502, "site_unreachable", True
    message = "The site could not be reached"


class SiteTooSlow(InternError):
    status, reason, retryable = 504, "timeout", True
    message = "The site took too long"
