"""Types of a syntax tree, and what can be refused before it runs."""
