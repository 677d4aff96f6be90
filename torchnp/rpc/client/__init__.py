"""What stands on the client: torch, and handles on a server's arrays."""
