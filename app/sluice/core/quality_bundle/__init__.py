"""The quality bundle: its written form, its look-up, and where its classes are relaxed."""
