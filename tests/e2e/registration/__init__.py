"""Registration from end to end: hub and agents as processes with their own rights, on both control planes."""
