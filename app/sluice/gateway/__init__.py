"""The HTTP gateway: agents that speak HTTP get the verdicts that workers commit."""
