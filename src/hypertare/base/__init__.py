"""The foundations of all other packages: errors, units, words, paths, other programs, this host's files."""
