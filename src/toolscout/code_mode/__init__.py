"""Code mode: a model writes one program that calls many tools, in a sandbox."""
