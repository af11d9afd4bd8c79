"""What an agent knows: the Secret that is its memory, the hubs it was told of, and who it is."""
