"""What an administrator does on AWS for a hub and its managed clusters: what has to be there first, and what was left."""
