"""One object written: the update strategies, who owns what, and how little is sent."""
