"""``torchnp new``: packages to start from, an engine of one's own or rows for another library's operators."""
