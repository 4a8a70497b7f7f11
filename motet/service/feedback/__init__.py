"""What a deployment learns from: records of answers, feedback to them, and which training had what."""
