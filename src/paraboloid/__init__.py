"""Curvature of PyTorch models: estimate it once, then train, sample, predict and look with it."""
