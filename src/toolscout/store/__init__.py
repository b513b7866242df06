"""What is kept: JSON texts by key, each with a version."""
