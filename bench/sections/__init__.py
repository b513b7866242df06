"""The sections of a report, each out of the figures of one part of a run."""
