"""The chat-completions format."""
