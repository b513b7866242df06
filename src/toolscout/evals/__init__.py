"""How well search does: labelled queries, figures with intervals, and knowing when to abstain."""
