"""Learning from use: which tools are called after which requests."""
