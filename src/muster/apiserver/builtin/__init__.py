"""The built-in kinds: their rows, and what each does beyond generic storage (defaults, checks, versions, columns, selectors)."""
