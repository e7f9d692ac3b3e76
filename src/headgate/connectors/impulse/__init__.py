"""A counter, at a rate or as fast as possible. For tests, demonstrations and measurements."""
