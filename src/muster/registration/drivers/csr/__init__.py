"""Registration by certificate signing request: the hub's own certificate authority vouches for the agent."""
