"""Running the gateway: audit, health, checks, reloads, savings."""
