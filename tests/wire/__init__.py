"""A loopback service that speaks the wire formats of the model providers."""
