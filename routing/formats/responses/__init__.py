"""The responses format."""
