"""Evaluation: search quality on labelled queries, and the cost of conversations."""
