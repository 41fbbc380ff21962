"""Who and what is known: entries, read and looked up."""
