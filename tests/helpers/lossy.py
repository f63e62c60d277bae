"""Faults of a network, as rules of a state machine."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.helpers.link import Wires

indices = st.integers(min_value=0, max_value=1000)


class LossyNetwork(RuleBasedStateMachine):
    """Loses, repeats and reorders messages, and breaks connections."""

    def wires(self, index: int) -> Wires:
        """Returns one of the actors' wires, for any number."""
        raise NotImplementedError

    @rule(index=indices, which=indices, up=st.booleans())
    def a_message_is_lost(self, index: int, which: int, up: bool) -> None:
        wires = self.wires(index)
        if queue := wires.up if up else wires.down:
            del queue[which % len(queue)]

    @rule(index=indices, which=indices, up=st.booleans())
    def a_message_comes_twice(self, index: int, which: int, up: bool) -> None:
        wires = self.wires(index)
        if queue := wires.up if up else wires.down:
            queue.append(queue[which % len(queue)])

    @rule(index=indices, which=indices, up=st.booleans())
    def a_message_overtakes(self, index: int, which: int, up: bool) -> None:
        wires = self.wires(index)
        if queue := wires.up if up else wires.down:
            queue.insert(0, queue.pop(which % len(queue)))

    @rule(index=indices)
    def a_connection_breaks(self, index: int) -> None:
        self.wires(index).cut()
