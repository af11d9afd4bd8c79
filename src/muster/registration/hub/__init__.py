"""The hub's side of registration: who is accepted, what they may do, whether they are alive, and what is left when they go."""
