"""The compiler from a checked tree to closures, and the run-time operators."""
