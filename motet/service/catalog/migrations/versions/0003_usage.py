"""What each tenant used, so that the counters outlive the server."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "usage",
        sa.Column("tenant", sa.String, primary_key=True),
        sa.Column("hour", sa.DateTime, primary_key=True),
        sa.Column("session", sa.String, primary_key=True),
        sa.Column("measure", sa.String, primary_key=True),
        sa.Column("amount", sa.Float, nullable=False),
    )
