"""The five published designs, each a profile with the matcher, reply and prompt it needs."""
