"""Content filters: what guardrails let nobody say, or take out of what is said."""
