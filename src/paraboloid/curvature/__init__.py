"""Floor 2: from a model, a likelihood and data to an operator."""
