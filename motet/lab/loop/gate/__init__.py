"""The gate: a candidate against what serves, on questions that neither has learned from."""
