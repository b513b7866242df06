"""Other tool searches, each in an environment and a process of its own, driven alike."""
