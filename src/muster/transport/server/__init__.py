"""The hub's end of the transport: who calls, what they may, who listens, and the process around it."""
