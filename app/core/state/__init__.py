"""What is remembered between inputs: sessions, reservations, quarantine, histories."""
