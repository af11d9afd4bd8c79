"""What a process is made of besides its controllers: parts that run together, health and metrics."""
