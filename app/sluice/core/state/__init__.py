"""The state between inputs: sessions, reservations, quarantine, histories."""
