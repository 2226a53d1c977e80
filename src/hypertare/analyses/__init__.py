"""What a study may ask of its run's trials beyond comparisons: one file each."""
