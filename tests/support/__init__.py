"""What tests stand on: control planes (ours and the real one), a raw HTTP client, kubectl, and the Go peers."""
