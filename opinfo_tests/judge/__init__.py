"""Judging of one call: outcomes, tolerances, defining equations, torch's disagreements with itself, diagnoses."""
