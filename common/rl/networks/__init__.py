"""Policy and value networks, and the one flat vector that holds their parameters."""
