"""Runs: the runner, its worker processes, the control experiment that validates a run, and the command line."""
