"""What a period would have cost under other rules."""
