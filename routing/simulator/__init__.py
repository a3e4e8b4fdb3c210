"""A simulated model provider: a real HTTP/1.1 server that can also misbehave on purpose.

It speaks the chat-completions, messages and responses formats with the standard library alone, and
imports nothing from the rest of the project, so that the gateway is tested against something it did
not write with the same hands. Every answer says that it is simulated.
"""

from routing.simulator.cli import main

__all__ = ["main"]
