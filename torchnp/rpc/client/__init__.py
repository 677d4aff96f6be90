"""The client side, which runs torch and has handles on a server's arrays."""
