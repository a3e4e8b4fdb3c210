"""Server tools: what the gateway runs for a model, and how it is run."""
