"""The journal: a row for every search, call, refusal, approval and server change."""
