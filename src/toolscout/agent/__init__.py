"""The loop: view, model, calls, results, again."""
