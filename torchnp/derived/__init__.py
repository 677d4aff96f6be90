"""Rows made by rule from other rows (`rules`, `forms`), and torch's rules of writing (`casts`, `targets`)."""
