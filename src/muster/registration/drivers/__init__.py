"""Ways of proving an agent's identity, found by name: ours, and those that other distributions bring by entry point."""
