"""The backward formulas that torch registers as ops of their own."""
