"""One sender per kind of receiver: from a config and traces to HTTP requests."""
