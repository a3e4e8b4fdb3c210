"""Usage as files: what was charged, in the ledger's own amounts."""
