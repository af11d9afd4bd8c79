"""What an executor may: reviews of access, permissions that are watched, and the escalation of roles."""
