"""Tokens that somebody else signed: whose they are, and which keys are good for them."""
