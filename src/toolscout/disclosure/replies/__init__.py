"""Ways to answer a search: siblings behind one function type, chosen by a profile."""
