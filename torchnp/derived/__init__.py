"""Rows derived by rule from other rows (`rules`, `forms`), and torch's rules for writes (`casts`, `targets`)."""
