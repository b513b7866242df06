"""Toolscout: tool search for LLM agents."""
