"""What a study can have carried out, and what is measured of it."""
