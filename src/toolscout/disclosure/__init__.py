"""What the model sees now."""
