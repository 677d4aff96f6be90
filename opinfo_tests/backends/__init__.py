"""What is judged: our table, torch, a device, a compiler, an array library, and where they are found by name."""
