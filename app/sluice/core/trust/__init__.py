"""Trust: envelopes, keys, and the fold of the control topics into the policy in force. No I/O."""
