"""What is told of a run: rows and totals, known gaps, pages, scripts, the simplest failing call."""
