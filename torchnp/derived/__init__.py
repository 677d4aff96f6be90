"""Rows that a rule derives from other rows (`rules`, `forms`), and torch's rules for writes (`casts`, `targets`)."""
