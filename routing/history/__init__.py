"""What was asked and what it came to: content, feedback, activity and analytics."""
