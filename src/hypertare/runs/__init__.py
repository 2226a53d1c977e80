"""A run's directory: the trials and records in run.sqlite, and summary.json."""
