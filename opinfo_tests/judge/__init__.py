"""What judges one call: outcomes, tolerances, defining equations, torch's own disagreements, diagnoses."""
