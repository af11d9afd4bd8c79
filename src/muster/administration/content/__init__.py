"""What a hub has for its clusters: works and addons on them, and the sets they are in."""
