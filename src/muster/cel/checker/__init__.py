"""Type checking, and validation before evaluation."""
