"""Log lines of every process: their format, and the lines of what went and came back."""
