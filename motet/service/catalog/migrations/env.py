"""Alembic's way in: the connection is handed over by `opening`, which calls it."""

from alembic import context

from motet.service.catalog.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
