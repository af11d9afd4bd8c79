"""What there is on the managed cluster: its kinds, and the live objects that works are about."""
