"""Built-in kinds: their rows, and their behaviour beyond generic storage (defaults, validation, versions, columns, selectors)."""
