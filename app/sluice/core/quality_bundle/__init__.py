"""The quality bundle: its written form, its look-up, and where a revision of it is looser."""
