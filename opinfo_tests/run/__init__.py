"""Runs: the runner, its worker processes, the control that shows whether a run is valid, and the command line."""
