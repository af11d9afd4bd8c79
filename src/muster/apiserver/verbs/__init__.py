"""What the verbs do: reading, watching, writing, patching, deleting, and the steps they share."""
