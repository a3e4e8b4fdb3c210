"""Past generations: contents, feedback, activity and analytics."""
