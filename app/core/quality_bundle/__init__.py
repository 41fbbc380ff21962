"""The quality bundle: as written, as looked up, and what a revision of it loosens."""
