"""Content filters: what guardrails forbid, or take out of texts."""
