"""The fault runs, one file each. Every run is `async (bed, scale) -> list[Figure]`."""
