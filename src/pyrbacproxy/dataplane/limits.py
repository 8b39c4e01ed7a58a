"""`Limits`: every timeout (seconds) and size (bytes) of the data plane."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What a connection may cost.

    What is a flag has its default in `config.flag_table`; its value here is for tests.
    """

    handshake_seconds: float = 10.0
    read_header_seconds: float = 32.0
    idle_seconds: float = 90.0
    write_stall_seconds: float = 60.0
    shutdown_grace_seconds: float = 30.0
    shutdown_delay_seconds: float = 0.0
    max_header_bytes: int = 1_048_576
    max_connections: int = 10_000
    # Not flags: the original's transport (reference 6.2), and bounds that nobody needs to turn.
    connect_seconds: float = 30.0
    upstream_handshake_seconds: float = 10.0
    upstream_idle_seconds: float = 90.0
    max_idle_upstreams: int = 100
    write_high_water_bytes: int = 262_144
    # An upstream that sends no 100 (Continue) gets the body after this (reference 6.2).
    continue_seconds: float = 1.0
    # A client that ended its sending may be gone altogether: when `half_closed` looks.
    half_closed_seconds: float = 0.5
    half_closed_rest_seconds: float = 0.8
    # HTTP/1.0 has nothing to look with: the time that the upstream has for its response head.
    half_closed_blind_seconds: float = 30.0
    # A refused body is read to its end if no more than this is to come, as by Go's server;
    # otherwise the connection closes.
    max_drained_bytes: int = 262_144
    # And if it comes within this time.
    drain_seconds: float = 5.0
    # A connection that has asked for nothing yet when we stop has this long to do so, as with Go's
    # server: its request may be on the way already.
    first_request_seconds: float = 5.0
    # How long we swallow what a client still sends after our last word: closing at once would
    # reset the answer away.
    linger_seconds: float = 1.0
    # And how much of it: a link that is fast brings a gigabyte in a second, each byte of it to be
    # read for nothing. Whoever sent so much since our last word has had the time to read that.
    max_lingered_bytes: int = 1_048_576
