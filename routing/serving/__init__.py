"""Serving one request: attempts at endpoints, the answer or stream, and its place in the books."""
