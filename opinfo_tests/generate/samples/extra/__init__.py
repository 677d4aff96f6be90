"""Our own sample calls, which OpInfo lacks, as lines of text ("rows").

`make_calls` describes the text and makes the calls, and the other modules list rows by family.
"""
