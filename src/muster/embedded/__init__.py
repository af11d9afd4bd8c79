"""The embedded API server for controllers and services in its own process: `runtime`'s clients on `apiserver`'s pipeline."""
