"""Forests in the formats of the libraries that serve them: what was changed is written, all else stays as it stood."""
