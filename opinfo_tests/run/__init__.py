"""Running: the runner, its worker processes, the control, the command line."""
