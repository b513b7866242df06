"""Change configuration files without losing what else is in them."""
