"""Between events and where objects are kept."""
