"""Sample calls beyond OpInfo's, as rows of text: `rows` makes the calls, and the other modules list rows by family."""
