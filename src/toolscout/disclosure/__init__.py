"""What a model sees: profiles, views, sessions and discovery tools."""
