"""Records of answers, feedback to them, trainings and their lineage."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "answers",
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("id", sa.String, nullable=False),
        sa.Column("time", sa.DateTime, nullable=False),
        sa.Column("name", sa.String),
        sa.Column("version", sa.BigInteger),
        sa.Column("user", sa.String),
        sa.Column("about", sa.JSON, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("judged", sa.Boolean, nullable=False),
    )
    op.create_index("answers_by_id", "answers", ["tenant", "id"], unique=True)
    op.create_index("answers_by_user", "answers", ["tenant", "user"])
    op.create_index("answers_by_judged", "answers", ["judged", "time"])
    op.create_table(
        "feedback",
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("id", sa.String, nullable=False),
        sa.Column("time", sa.DateTime, nullable=False),
        sa.Column("answer", sa.String, nullable=False),
        sa.Column("name", sa.String),
        sa.Column("version", sa.BigInteger),
        sa.Column("source", sa.String),
        sa.Column("said", sa.JSON, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("quarantine", sa.String),
        sa.Column("training", sa.String),
    )
    op.create_index("feedback_by_id", "feedback", ["tenant", "id"], unique=True)
    op.create_index("feedback_by_answer", "feedback", ["tenant", "answer"])
    op.create_index("feedback_by_name", "feedback", ["tenant", "name", "number"])
    op.create_index("feedback_by_source", "feedback", ["tenant", "source"])
    op.create_table(
        "trainings",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("key", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("parent", sa.String),
        sa.Column("recipe", sa.JSON, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("opened", sa.DateTime, nullable=False),
        sa.Column("closed", sa.DateTime),
        sa.Column("path", sa.String),
        sa.Column("version", sa.BigInteger),
        sa.Column("reason", sa.String, nullable=False),
    )
    op.create_index("trainings_by_key", "trainings", ["tenant", "key"], unique=True)
    op.create_table(
        "lineage",
        sa.Column("training", sa.String, primary_key=True),
        sa.Column("feedback", sa.BigInteger, primary_key=True),
        sa.Column("role", sa.String, nullable=False),
        sa.Column("forgotten", sa.String),
    )
    op.create_index("lineage_by_feedback", "lineage", ["feedback"])
    op.create_table(
        "recording",
        sa.Column("tenant", sa.String, primary_key=True),
        sa.Column("store", sa.Boolean, nullable=False),
        sa.Column("keep_days", sa.Float),
    )
