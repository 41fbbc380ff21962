"""Text as it is meant: encodings, look-alikes and other disguises taken off, within bounds."""
