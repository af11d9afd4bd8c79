"""What the hub is told of a work: values and conditions read from objects, and the conditions of the work."""
