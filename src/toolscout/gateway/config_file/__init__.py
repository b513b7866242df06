"""Change configuration files and keep everything else in them."""
