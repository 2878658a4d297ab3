"""The frame around experiments: the shape of a recipe, runs, records, models, and the one training loop."""
