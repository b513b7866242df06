"""Clients for model services, behind one contract."""
