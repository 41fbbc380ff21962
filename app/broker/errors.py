"""What can go wrong between the wish for a broker and a broker that answers."""

THREE_WAYS = """\
Any one of these gives Sluice a broker:
  1. one that runs already: set KAFKA_BOOTSTRAP_SERVERS=host:port
  2. Docker: start its daemon (the official apache/kafka image is used)
  3. a JDK (17 or later) and Maven on the PATH: a local Apache Kafka is resolved, checked and started"""


class BrokerError(Exception):
    """No broker, or it did not do what was asked; the message says what to do next."""


class NoBrokerError(BrokerError):
    """None of the three ways works here; the message names them and why each was passed over."""

    def __init__(self, reasons: dict[str, str]) -> None:
        tried = "\n".join(f"  {way}: {reason}" for way, reason in reasons.items())
        super().__init__(f"No Kafka broker.\nTried:\n{tried}\n{THREE_WAYS}")


class JarsError(BrokerError):
    """The broker's jars are not those of the manifest; each difference is named."""
