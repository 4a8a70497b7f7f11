"""The first schema: sessions, runs, steps, requests, versions, samplers, checkpoints, keys."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("about", sa.JSON, nullable=False),
        sa.Column("display_name", sa.String),
        sa.Column("created", sa.DateTime, nullable=False),
        sa.Column("project", sa.String, nullable=False),
        sa.Column("finished", sa.Boolean, nullable=False),
        sa.Column("ending", sa.String, nullable=False),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("session", sa.String, nullable=False),
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("about", sa.JSON, nullable=False),
        sa.Column("base", sa.String, nullable=False),
        sa.Column("shape", sa.JSON, nullable=False),
        sa.Column("seed", sa.BigInteger),
        sa.Column("snapshot", sa.String),
        sa.Column("snapshot_number", sa.BigInteger, nullable=False),
        sa.Column("forgotten", sa.BigInteger, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
    op.create_table(
        "steps",
        sa.Column("run", sa.String, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("adam", sa.JSON, nullable=False),
        sa.Column("gradient", sa.String, nullable=False),
    )
    op.create_table(
        "requests",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("body", sa.LargeBinary),
        sa.Column("reply", sa.LargeBinary),
        sa.Column("media", sa.String),
        sa.Column("accumulates", sa.String),
        sa.Column("accepted", sa.DateTime, nullable=False),
    )
    op.create_index("requests_by_owner", "requests", ["owner"])
    op.create_table(
        "versions",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("run", sa.String, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("content_hash", sa.String, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("nameless", sa.Boolean, nullable=False),
        sa.Column("folder", sa.String, nullable=False),
        sa.Column("time", sa.DateTime, nullable=False),
    )
    op.create_table(
        "samplers",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("session", sa.String, nullable=False),
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("version", sa.String),
        sa.Column("follows", sa.String),
        sa.Column("model_path", sa.String),
    )
    op.create_table(
        "checkpoints",
        sa.Column("path", sa.String, primary_key=True),
        sa.Column("run", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("folder", sa.String, nullable=False),
        sa.Column("about", sa.JSON, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("public", sa.Boolean, nullable=False),
        sa.Column("time", sa.DateTime, nullable=False),
        sa.Column("expires", sa.DateTime),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("digest", sa.String, nullable=False, unique=True),
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
        sa.Column("revoked", sa.DateTime),
    )
