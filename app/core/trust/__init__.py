"""Whose word counts: envelopes, keys, and the fold of the control topics into what is in force. No I/O."""
