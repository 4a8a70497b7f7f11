"""A program's view of serving over HTTP: names in service, feedback, records, trainings. It imports no other wing."""
