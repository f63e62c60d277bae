"""The actor daemon: rollouts and gradients for a learner; also playing a trained agent."""
