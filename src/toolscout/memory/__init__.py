"""What a conversation remembers of its tool results: entities, and which tools were used."""
