"""Limits on what reaches the gateway from outside: connections, requests, sessions, calls, logs."""
