"""HTTP itself: the connection, seed 002's headers, errors and API keys."""
