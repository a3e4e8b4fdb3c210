"""Decisions: typed questions about a piece of state."""
