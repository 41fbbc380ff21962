"""The metadata of a memory or an item: times, provenance, quality."""
