"""People who are played: they ask what serves, say what they think, and nobody tells them of the loop."""
