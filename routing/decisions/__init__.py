"""Typed questions about a piece of state and the distributions that answer them. Pure."""
