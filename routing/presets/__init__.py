"""Presets: settings of requests, kept in a workspace under a name (management reference 4)."""
