"""What is watched beside the gate: live feedback to a candidate, drift, feedback that contradicts the rest."""
