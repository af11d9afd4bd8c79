"""Clients of the embedded API server in its own process: `runtime`'s clients on `apiserver`'s pipeline."""
