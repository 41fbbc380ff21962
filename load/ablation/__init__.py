"""What each part of the detectors catches that nothing else does."""
