"""``torchnp new`` writes a package to start from: a new engine, or rows for another library's operators."""
