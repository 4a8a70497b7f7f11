"""The catalog's tables. Times are UTC, without a zone; JSON columns hold small dictionaries; large bytes are files."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Float,
    Index,
    LargeBinary,
    MetaData,
    String,
    Table,
)

metadata = MetaData()

# A client's visit.
sessions = Table(
    "sessions",
    metadata,
    Column("id", String, primary_key=True),
    Column("tenant", String, nullable=False),
    Column("about", JSON, nullable=False),  # the client's user_metadata
    Column("display_name", String),
    Column("created", DateTime, nullable=False),
    Column("project", String, nullable=False),
    Column("finished", Boolean, nullable=False),
    Column("ending", String, nullable=False),  # how it went, once it is finished
)

# A run and where its training state can be had: the newest snapshot, else a fresh adapter of its seed.
runs = Table(
    "runs",
    metadata,
    Column("id", String, primary_key=True),
    Column("session", String, nullable=False),
    Column("tenant", String, nullable=False),
    Column("about", JSON, nullable=False),
    Column("base", String, nullable=False),  # hash of the base model that it was made on
    Column("shape", JSON, nullable=False),
    Column("seed", BigInteger),
    Column("snapshot", String),  # folder, relative to the data folder
    Column("snapshot_number", BigInteger, nullable=False),  # of the request after which it was taken
    Column("forgotten", BigInteger, nullable=False),  # requests up to this number may have no row any more
    Column("created", DateTime, nullable=False),
)

# What the optimizer did since the snapshot.
steps = Table(
    "steps",
    metadata,
    Column("run", String, primary_key=True),
    Column("number", BigInteger, primary_key=True),  # of its request
    Column("adam", JSON, nullable=False),
    Column("gradient", String, nullable=False),  # file, relative to the data folder
)

# A request, from its acceptance until its result is forgotten; a forward_backward at least until the next step.
requests = Table(
    "requests",
    metadata,
    Column("id", String, primary_key=True),
    Column("tenant", String, nullable=False),
    Column("owner", String, nullable=False),  # a run, a sampler or a session
    Column("number", BigInteger, nullable=False),
    Column("kind", String, nullable=False),
    Column("body", LargeBinary),  # None: in a file, or not needed any more
    Column("reply", LargeBinary),  # None: in a file, or not there (yet)
    Column("media", String),  # of the reply; None while the request is on its way
    Column("accumulates", String),  # fingerprint under which its gradient was added to the run's, until the next step
    Column("accepted", DateTime, nullable=False),
)
Index("requests_by_owner", requests.c.owner)

# A published version, and the PEFT folder that holds it.
versions = Table(
    "versions",
    metadata,
    Column("name", String, primary_key=True),
    Column("run", String, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("content_hash", String, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("nameless", Boolean, nullable=False),
    Column("folder", String, nullable=False),
    Column("time", DateTime, nullable=False),
)

samplers = Table(
    "samplers",
    metadata,
    Column("id", String, primary_key=True),
    Column("session", String, nullable=False),
    Column("tenant", String, nullable=False),
    Column("version", String),
    Column("follows", String),  # a run, for the inflight kind
    Column("model_path", String),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("path", String, primary_key=True),
    Column("run", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("name", String, nullable=False),
    Column("folder", String, nullable=False),
    Column("about", JSON, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("public", Boolean, nullable=False),
    Column("time", DateTime, nullable=False),
    Column("expires", DateTime),
)

# What each tenant used in each hour, by session ("" where it belongs to none) and measure.
usage = Table(
    "usage",
    metadata,
    Column("tenant", String, primary_key=True),
    Column("hour", DateTime, primary_key=True),
    Column("session", String, primary_key=True),
    Column("measure", String, primary_key=True),
    Column("amount", Float, nullable=False),
)

# A tenant's names in service, what each stands for, and what was done to it.
names = Table(
    "names",
    metadata,
    Column("tenant", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("serving", BigInteger),  # number of a version
    Column("before", BigInteger),
    Column("candidate", BigInteger),
    Column("canary", Float, nullable=False),
    Column("pinned", Boolean, nullable=False),
    Column("turns", JSON, nullable=False),
)

name_versions = Table(
    "name_versions",
    metadata,
    Column("tenant", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("path", String, nullable=False),  # of a sampler checkpoint
    Column("time", DateTime, nullable=False),
    Column("about", String, nullable=False),
)

# Answers that were given, in the order of `number`; `content` is what was asked and said, packed.
answers = Table(
    "answers",
    metadata,
    Column("number", BigInteger, primary_key=True),
    Column("tenant", String, nullable=False),
    Column("id", String, nullable=False),
    Column("time", DateTime, nullable=False),
    Column("name", String),  # in service; None for the base model and for a bare checkpoint
    Column("version", BigInteger),
    Column("user", String),
    Column("about", JSON, nullable=False),  # the rest of what is told of it
    Column("content", LargeBinary, nullable=False),
    Column("size", BigInteger, nullable=False),  # of the content
    Column("judged", Boolean, nullable=False),  # there is feedback to it
)
Index("answers_by_id", answers.c.tenant, answers.c.id, unique=True)
Index("answers_by_user", answers.c.tenant, answers.c.user)
Index("answers_by_judged", answers.c.judged, answers.c.time)

# What was said of answers, in the order of `number`.
feedback = Table(
    "feedback",
    metadata,
    Column("number", BigInteger, primary_key=True),
    Column("tenant", String, nullable=False),
    Column("id", String, nullable=False),  # the client's
    Column("time", DateTime, nullable=False),
    Column("answer", String, nullable=False),
    Column("name", String),  # as the answer's
    Column("version", BigInteger),
    Column("source", String),  # who says so
    Column("said", JSON, nullable=False),
    Column("digest", String, nullable=False),  # of the request, to know it again
    Column("quarantine", String),  # why no training may have it
    Column("training", String),  # the one that has claimed it
)
Index("feedback_by_id", feedback.c.tenant, feedback.c.id, unique=True)
Index("feedback_by_answer", feedback.c.tenant, feedback.c.answer)
Index("feedback_by_name", feedback.c.tenant, feedback.c.name, feedback.c.number)
Index("feedback_by_source", feedback.c.tenant, feedback.c.source)

# Trainings of names in service: claims of feedback, and the version that came of each.
trainings = Table(
    "trainings",
    metadata,
    Column("id", String, primary_key=True),
    Column("tenant", String, nullable=False),
    Column("key", String, nullable=False),  # the client's
    Column("name", String, nullable=False),
    Column("state", String, nullable=False),  # open, done or abandoned
    Column("parent", String),  # a checkpoint; None: the base model
    Column("recipe", JSON, nullable=False),
    Column("digest", String, nullable=False),
    Column("opened", DateTime, nullable=False),
    Column("closed", DateTime),
    Column("path", String),  # the checkpoint that it gave
    Column("version", BigInteger),  # its number under the name
    Column("reason", String, nullable=False),
)
Index("trainings_by_key", trainings.c.tenant, trainings.c.key, unique=True)

# Which feedback a training had, and as what: item, replayed or held_out. It outlives the feedback.
lineage = Table(
    "lineage",
    metadata,
    Column("training", String, primary_key=True),
    Column("feedback", BigInteger, primary_key=True),  # its number
    Column("role", String, nullable=False),
    Column("forgotten", String),  # whose it was (a keyed digest of the user), once that person's data was deleted
)
Index("lineage_by_feedback", lineage.c.feedback)

# What tenants chose of records, where it is not the server's.
recording = Table(
    "recording",
    metadata,
    Column("tenant", String, primary_key=True),
    Column("store", Boolean, nullable=False),
    Column("keep_days", Float),
)

# API keys: only digests are kept.
keys = Table(
    "keys",
    metadata,
    Column("id", String, primary_key=True),  # the first characters of the key, for people
    Column("digest", String, nullable=False, unique=True),
    Column("tenant", String, nullable=False),
    Column("created", DateTime, nullable=False),
    Column("revoked", DateTime),
)

# Tenants whose quotas differ from the server's: {quota: value}.
tenants = Table(
    "tenants",
    metadata,
    Column("name", String, primary_key=True),
    Column("quotas", JSON, nullable=False),
)
