"""One finished episode, as it travels from the environment to the learner's statistics."""

import msgspec


class Episode(msgspec.Struct, frozen=True, array_like=True):
    """The figures of one finished episode; on the wire and in a run folder an array of three numbers."""

    episode_return: float
    """Sum of the rewards, undiscounted, as the environment gave them; finite."""
    length: int
    """Steps of the agent."""
    seconds: float
    """Its length times the duration of one step of its batch, without any waiting between steps."""
