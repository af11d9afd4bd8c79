"""What is served: one declarative row per resource, built-in or custom, and the special behaviour some kinds need."""
