"""Other people's models: read as data, never executed."""
