"""The registration agent: gets and renews a credential of the hub, and reports the state of its cluster."""
