"""The work of accepted requests, by kind. Routes name a kind; recovery finds it by its name."""
