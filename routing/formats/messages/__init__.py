"""The messages format."""
