"""A checked tree as closures, and the operators they use."""
