"""A fake numba, as much of it as the suite needs, that misbehaves where it is asked to (`vices.py`)."""
