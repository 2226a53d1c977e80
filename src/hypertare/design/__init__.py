"""Which trials a study has, in which order, and what the agent is told to do for each. Pure."""
