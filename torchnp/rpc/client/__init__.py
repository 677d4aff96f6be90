"""The client side: torch, and handles on a server's arrays."""
