"""Reporting of a run: rows and totals, known gaps, pages, scripts, shrunk failing calls."""
