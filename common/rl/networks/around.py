"""Networks that wrap a network: they change its inputs or its outputs, and have no parameters of their own."""

from common.rl.networks.heads import PolicyValue


class Around(PolicyValue):
    """Base of the wrappers: has the attributes of the network; a derived class defines the methods."""

    def __init__(self, network: PolicyValue, what: str) -> None:
        """what: the wrapper's word in the architecture, for what it does."""
        super().__init__()
        self.inner = network
        self.action = network.action
        self.chunk = network.chunk
        self.state_size = network.state_size
        self.architecture = f"{what} {network.architecture}"


def peel(network: PolicyValue) -> tuple[list[Around], PolicyValue]:
    """Return the wrappers around a network, the outermost first, and the network itself."""
    around = []
    while isinstance(network, Around):
        around.append(network)
        network = network.inner
    return around, network
