"""Samples of our own, as rows of text: what calls them is in `rows`, the rows in the other modules by family."""
