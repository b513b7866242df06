"""Where vectors come from."""
