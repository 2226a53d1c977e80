"""From trials to estimates, warnings, judged claims and comparisons. Pure."""
