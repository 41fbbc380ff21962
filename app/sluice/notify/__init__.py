"""Tells people and programs of escalations: what, in which order, and from when on it counts as told."""
