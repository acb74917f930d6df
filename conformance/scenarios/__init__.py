"""The catalogue: one module for each family of scenarios."""
