"""The protocol of hub and agents, independent of its transport: event types, events, and the kinds of resources."""
