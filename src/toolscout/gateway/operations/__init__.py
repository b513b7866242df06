"""Operations of the gateway: audit log, health, checks, reloads, savings."""
