"""Reports of a run: rows and totals, known gaps, the HTML page, repro scripts, shrunk failing calls."""
