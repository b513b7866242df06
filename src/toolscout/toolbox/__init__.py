"""The façade: search, load, call and view, over everything below."""
