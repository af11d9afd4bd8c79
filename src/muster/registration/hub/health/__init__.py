"""Whether clusters are alive, and what follows for placements and addons when they are not."""
