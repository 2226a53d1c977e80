"""What a run found, for people and for other programs."""
