"""The responses format (inference reference 5)."""
