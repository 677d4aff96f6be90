"""Backends under test: our table, torch, a device, a compiler, an array library, and loading them by name."""
