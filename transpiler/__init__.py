"""Types and source in, source out: never runs a user's numerical code."""
