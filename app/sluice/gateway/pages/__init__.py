"""The pages on which people log in, read what the gate decided, and answer what waits for them."""
