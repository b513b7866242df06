"""Acceptance conversations of the five designs, through every door."""
