"""What a caller of the vault can meet. None of it has metadata (management reference 7)."""

from gateway.http.errors import GatewayError


class VaultWritesOff(GatewayError):
    status, error_type, message = 503, "provider_overloaded", "Vault writes are not enabled"


class VaultConflict(GatewayError):
    status, error_type = 409, "invalid_request"
    message = "Vault request conflicts with existing secrets"


class VaultFull(GatewayError):
    status, error_type = 400, "invalid_request"
    message = "The vault holds as many secrets as it can"
