"""`make run`: the supervisor and the processes it keeps alive."""
