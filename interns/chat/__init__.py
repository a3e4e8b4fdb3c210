"""Talking to an intern: its turns, what it asks in between, and the stream of both."""
