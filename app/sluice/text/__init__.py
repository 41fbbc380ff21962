"""Plain handling of text, below the core and the detectors: names, places, plurals, what a reader sees."""
