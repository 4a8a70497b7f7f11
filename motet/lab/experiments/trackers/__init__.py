"""Where the numbers of an experiment may go besides its own folder, one file a service; each is an extra."""
