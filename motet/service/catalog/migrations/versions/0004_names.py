"""Names in service, and the versions that each has had."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "names",
        sa.Column("tenant", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("serving", sa.BigInteger),
        sa.Column("before", sa.BigInteger),
        sa.Column("candidate", sa.BigInteger),
        sa.Column("canary", sa.Float, nullable=False),
        sa.Column("pinned", sa.Boolean, nullable=False),
        sa.Column("turns", sa.JSON, nullable=False),
    )
    op.create_table(
        "name_versions",
        sa.Column("tenant", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("path", sa.String, nullable=False),
        sa.Column("time", sa.DateTime, nullable=False),
        sa.Column("about", sa.String, nullable=False),
    )
