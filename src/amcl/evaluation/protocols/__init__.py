"""A file for each evaluation protocol: its settings, and the function that runs it."""
