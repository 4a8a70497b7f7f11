"""Tenants' own quotas, where they differ from the server's."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "tenants",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("quotas", sa.JSON, nullable=False),
    )
