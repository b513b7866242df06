"""Model services behind one small contract."""
