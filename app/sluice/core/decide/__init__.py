"""The decision point: one input in, one decision out."""
