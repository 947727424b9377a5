"""The paper's experiments: its search ranges and published numbers."""
