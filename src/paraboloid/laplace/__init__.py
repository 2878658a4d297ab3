"""Laplace approximations: a normal distribution over weights from the curvature at a trained network."""
