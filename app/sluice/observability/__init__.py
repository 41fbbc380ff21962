"""What a running process shows of itself: metrics, health, log lines and traces."""
