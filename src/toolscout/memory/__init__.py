"""Memory of a conversation: entities from tool results, and which tools were used."""
