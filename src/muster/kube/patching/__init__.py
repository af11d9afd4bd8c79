"""How patches make one object of another: JSON patch, merge patch, strategic merge."""
