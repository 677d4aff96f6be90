"""Judges one call: outcomes, tolerances, checks of matrix factors, results that torch does not specify, diagnoses."""
