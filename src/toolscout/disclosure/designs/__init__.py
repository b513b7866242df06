"""The five published designs (A to E), each complete: matcher, reply, prompt and profile."""
