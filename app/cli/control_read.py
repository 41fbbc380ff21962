"""The control topics as a command reads them: what is in force, and all that ever was."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.adapters.kafka_control import read_control
from app.adapters.kafka_read import KafkaUnreachable, UnknownTopics
from app.cli.control import control_topics, roots_or_stop
from app.cli.output import settings_or_stop, stop, stop_unknown_topics
from app.core.cases import run_cases
from app.core.trust.compiled import Compiled
from app.core.trust.fold import fold

if TYPE_CHECKING:
    from app.core.trust.fold import Folded


def folded_or_stop() -> Folded:
    """The fold of every record that the control topics hold now; what hinders it ends the command."""
    settings = settings_or_stop()
    roots = roots_or_stop(settings)
    kafka = settings.kafka
    try:
        records = asyncio.run(read_control(kafka.bootstrap_servers, control_topics(settings)))
    except UnknownTopics as error:
        stop_unknown_topics(error)
    except KafkaUnreachable as error:
        stop(f"cannot read the control topics: {error}")
    return fold(records, roots, Compiled(run_cases))
