"""Administration of a hub and its managed clusters on AWS: the required roles, diagnosis, and cleanup."""
