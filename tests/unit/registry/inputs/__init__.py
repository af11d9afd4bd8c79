"""What is sent to the real server to record its answers, and to ours to compare."""
