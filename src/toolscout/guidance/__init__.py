"""Guidance for the use of tools: rules by category, and skills."""
