"""Trust: envelopes, keys, and the reduction of the control topics to the policy in force. No I/O."""
