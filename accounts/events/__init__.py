"""Events: what is recorded of what happened, and how channels get to hear of it."""
