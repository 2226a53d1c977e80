"""How studies are run on each kind of machine: one file each."""
