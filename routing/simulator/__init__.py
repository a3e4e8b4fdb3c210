"""A simulated model provider: a real HTTP/1.1 server that can also misbehave on purpose.

It speaks the chat-completions, messages, responses, decisions and embeddings formats with the
standard library alone. It imports nothing from the rest of the project: a shared mistake would hide
itself from the tests. Every answer says that it is simulated.
"""

from routing.simulator.cli import main

__all__ = ["main"]
