"""Ways to match a query with tools: siblings behind one protocol, chosen by a profile."""
