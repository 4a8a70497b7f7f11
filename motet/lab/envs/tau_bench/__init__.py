"""tau-bench retail: an agent, a customer and a database, after the published policy, data, tasks and tools."""
