"""What this machine can do, and what stands in the way of good numbers."""
