"""Bounds on the number of actors that an operator has set, which replace those in the run's settings."""

import dataclasses

import msgspec

from common.settings.sections import Scaling
from learner.scaling.measure import Decision, count


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds that an operator has set. Checkpoints keep them: they hold until the run ends, or is resumed with other
    settings.
    """

    minimum: int
    maximum: int
    by: str
    """The operator's name."""
    instead_of: tuple[str, int, int]
    """Policy, minimum and maximum in the settings at that time."""

    def put_into(self, section: Scaling) -> Scaling:
        return msgspec.structs.replace(section, minimum=self.minimum, maximum=self.maximum)

    def decision(self, decision: Decision) -> Decision:
        """Return the policy's decision with a note whose bounds these are; or the only number that the bounds allow."""
        if self.minimum == self.maximum:
            return Decision(self.minimum, f"as operator {self.by} said: {count(self.minimum)}")
        bounds = f"{self.minimum} to {self.maximum} as operator {self.by} said"
        return dataclasses.replace(decision, why=f"{decision.why} ({bounds})")


def written(section: Scaling) -> tuple[str, int, int]:
    """Return policy, minimum and maximum as the settings have them."""
    return section.policy, section.minimum, section.maximum


def kept(bounds: Bounds | None, section: Scaling) -> Bounds | None:
    """Return the bounds of a checkpoint, or None if the settings have changed since: the newer decision counts."""
    return bounds if bounds is not None and bounds.instead_of == written(section) else None


def refusal(section: Scaling, minimum: int, maximum: int) -> str:
    """Return why a run with these settings does not accept such bounds; empty: it does."""
    if minimum > maximum:
        return f"the minimum {minimum} is above the maximum {maximum}"
    if section.policy == "fixed" and minimum != maximum:
        return f'scaling.policy = "fixed" has one number of actors, not {minimum} to {maximum}: name one'
    return ""
