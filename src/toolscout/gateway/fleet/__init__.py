"""Several gateways with one store that behave as one."""
