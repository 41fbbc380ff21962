"""Where Faust's services log what they do: under Faust's own name, which is quiet below WARNING.

mode names a service's logger after the module of its class, so our subclasses would speak for all of Faust.
"""

from mode.utils.logging import get_logger

service_log = get_logger("faust.service")
