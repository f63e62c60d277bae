"""The actor daemon, which plays rollouts and computes gradients for a learner; also code that plays a trained agent."""
