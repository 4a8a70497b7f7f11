"""How a policy writes a tool call, and how the result comes back to it."""
