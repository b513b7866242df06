"""Who calls over HTTP: tokens, the issuer's keys, roles, and logins with a browser."""
