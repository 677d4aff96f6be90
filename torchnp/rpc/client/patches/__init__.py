"""Patches to torch for sessions: optimizers that keep their counters on the server."""
