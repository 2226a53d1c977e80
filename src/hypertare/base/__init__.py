"""What everything else stands on: errors, units, words, paths, other programs, this host's files."""
