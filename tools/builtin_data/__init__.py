"""Generator of the data files behind the built-in resources (`python -m tools.builtin_data`)."""
