"""Which trials a study has, in which order, and what the agent does for each. Pure."""
