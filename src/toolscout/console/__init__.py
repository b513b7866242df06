"""The web console: pages at `/console` that show what a gateway does and why."""
