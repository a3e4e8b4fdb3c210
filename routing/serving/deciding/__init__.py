"""One request for decisions: what is asked of which endpoint, and at what price."""
