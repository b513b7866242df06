"""Attacks on a real gateway with real servers and clients, and whether it withstands them."""
