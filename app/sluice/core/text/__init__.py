"""Text as it is meant: encodings, look-alikes and other disguises taken off, patterns over it."""
