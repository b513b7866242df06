"""The agent loop: build the view, ask the model, run its calls, and repeat."""
