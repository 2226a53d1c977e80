"""What simple laws foretell of more guests."""
