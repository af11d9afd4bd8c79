"""What hub and agents speak, whatever carries it: event types, events, and the kinds of resources they are about."""
