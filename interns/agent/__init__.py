"""The program inside an intern's runtime. It imports nothing else of the gateway."""
