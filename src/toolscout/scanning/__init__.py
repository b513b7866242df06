"""Find definitions of tools that try to steer a model, hide something or take secrets."""
