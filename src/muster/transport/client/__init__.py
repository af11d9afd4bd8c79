"""The agent's end: a client with a client's verbs, over a mirror of what the hub sends."""
