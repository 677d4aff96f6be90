"""Rows derived by rule from other rows (`rules`, `forms`), and torch's write rules (`casts`, `targets`)."""
