"""Presets: settings of requests, stored in a workspace under a name."""
