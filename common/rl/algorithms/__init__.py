"""How observations become actions, and a rollout becomes a gradient: pure functions.

Small arrays (steps x copies) are numpy here: a torch call costs several times as much, and the recursions over time
make many. Networks and their gradients are torch.
"""
